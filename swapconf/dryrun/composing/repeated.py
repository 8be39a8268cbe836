"""MICRO-BATCHES of a run + those of a step -> REPEATED: which passes of the run stand for those of the step.

The first and the last pass of the warm-up, of the steady part and of the cool-down stay what they are, and those
between are repeated, or left out.
"""

from __future__ import annotations

from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.words.phrases import phrase


def repeated(in_flight: int, micro_batches: int, new_in_flight: int, new_micro_batches: int) -> list[int]:
    """[passes of the step] which of those of the run each is. Raises CannotCompose where the run has too few."""
    given = in_flight - 1, micro_batches - in_flight + 1
    wanted = new_in_flight - 1, new_micro_batches - new_in_flight + 1
    if min(wanted[0], wanted[1] - 1) < 0:
        raise CannotCompose(phrase("a stage keeps at most all of its micro-batches"))
    if (wanted[0] > 0) != (given[0] > 0):
        raise CannotCompose(
            phrase("one keeps a micro-batch in flight while it takes the next one, and the other does not")
        )
    warm = _front(given[0], wanted[0])
    steady = _both_ends(given[1], wanted[1], first_is_alike=given[0] > 0)
    cool = [given[0] - 1 - one for one in reversed(_front(given[0], wanted[0]))]
    pairs = [given[0] + one + number for one in steady for number in (one, one + 1)]
    return [*warm, *pairs, *(given[0] + 2 * given[1] + one for one in cool)]


def _front(given: int, wanted: int) -> list[int]:
    """Which of so many passes, the first of which is unlike the others, stand for so many. Raises CannotCompose."""
    if wanted <= given:
        return [*range(wanted)]
    if given < 2:
        raise CannotCompose(
            phrase("a run with two micro-batches in flight does not show what a stage with more of them repeats")
        )
    middle = given // 2
    return [*range(middle), *[middle] * (wanted - given), *range(middle, given)]


def _both_ends(given: int, wanted: int, *, first_is_alike: bool) -> list[int]:
    """The same where the last is unlike the others, too, and is kept before the first. Raises CannotCompose."""
    if wanted <= given:
        front = -(-wanted // 2) if wanted > 1 else 0
        return [*range(front), *range(given - wanted + front, given)]
    if given < 3 - first_is_alike:
        raise CannotCompose(phrase("the run has too few micro-batches to show what each further one repeats"))
    middle = (given - first_is_alike) // 2
    return [*range(middle), *[middle] * (wanted - given), *range(middle, given)]
