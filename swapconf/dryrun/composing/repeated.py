"""MICRO-BATCHES of a run + those of a step -> REPEATED: which passes of the run stand for those of the step.

The first and the last pass of the warm-up, of the steady part and of the cool-down stay what they are, and those
between are repeated, or left out. Of a stage in the middle the last three pairs of the steady part stay: no message is
waited for behind the last forward pass, so that MindSpore's queue takes those before it at another turn (measured with
2.9.0: what the stage before sends is received 11 launches earlier, and copies of small weights change places).
"""

from __future__ import annotations

from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.words.phrases import phrase

LAST, LAST_IN_THE_MIDDLE = 1, 3  # pairs of the steady part that show its end
_LEAST_WARM = 2  # passes of the warm-up, of which the first is unlike the others
_FIRST = 2  # pairs of the steady part until gradients are added to a sum, and not to the first gradients


def repeated(
    in_flight: int, micro_batches: int, new_in_flight: int, new_micro_batches: int, last_pairs: int = LAST
) -> list[int]:
    """[passes of the step] which of those of the run each is. ``last_pairs``: how many pairs of the steady part stay at
    its end. Raises CannotCompose where the run has too few."""
    given = in_flight - 1, micro_batches - in_flight + 1
    wanted = new_in_flight - 1, new_micro_batches - new_in_flight + 1
    if min(wanted[0], wanted[1] - 1) < 0:
        raise CannotCompose(phrase("a stage keeps at most all of its micro-batches"))
    if (wanted[0] > 0) != (given[0] > 0):
        raise CannotCompose(
            phrase("one keeps a micro-batch in flight while it takes the next one, and the other does not")
        )
    warm = _front(given[0], wanted[0])
    steady = _both_ends(given[1], wanted[1], last_pairs)
    cool = [given[0] - 1 - one for one in reversed(_front(given[0], wanted[0]))]
    pairs = [given[0] + one + number for one in steady for number in (one, one + 1)]
    return [*warm, *pairs, *(given[0] + 2 * given[1] + one for one in cool)]


def shown(in_flight: int, micro_batches: int, last_pairs: int) -> int:
    """How much a run shows of what a step with more in flight, and one with more micro-batches, repeats: up to 2."""
    pairs = micro_batches - in_flight + 1
    return (in_flight - 1 >= _LEAST_WARM) + (_middle(pairs, last_pairs) >= 1)


def _middle(given: int, last_pairs: int) -> int:
    """The pair of so many that is repeated; the first one waits for less than all others do."""
    return min((given - 1) // 2, given - last_pairs - 1)


def _front(given: int, wanted: int) -> list[int]:
    """Which of so many passes, the first of which is unlike the others, stand for so many. Raises CannotCompose."""
    if wanted <= given:
        return [*range(wanted)]
    if given < _LEAST_WARM:
        raise CannotCompose(
            phrase("a run with two micro-batches in flight does not show what a stage with more of them repeats")
        )
    middle = given // 2
    return [*range(middle), *[middle] * (wanted - given), *range(middle, given)]


def _both_ends(given: int, wanted: int, last_pairs: int) -> list[int]:
    """The same where the last ones are unlike the others, too; the very last is kept before the first. Raises
    CannotCompose."""
    if wanted <= given:
        front = max(wanted // 2, min(wanted - 1, _FIRST))
        return [*range(front), *range(given - wanted + front, given)]
    middle = _middle(given, last_pairs)
    if middle < 1:
        raise CannotCompose(phrase("the run has too few micro-batches to show what each further one repeats"))
    return [*range(middle), *[middle] * (wanted - given), *range(middle, given)]
