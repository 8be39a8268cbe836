"""FORMS of a run with fewer layers + FORMS of one with more -> PERIODS: what a step repeats for each two layers, where.

Both are walked through side by side. Where they part, the run with more layers has something more: as much as stands
right before it once more, after which both go on alike. How far a period reaches back is how long the step repeats
itself there. Where they only launch the same in another order, that is gone over; where the last layer does, too, what
is more stands some way before. Names are not looked at: MindSpore numbers them anew in every graph, and names many
gradients after another layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.shuffles import SEEN, alike, are_alike, reach, shuffled, with_more
from swapconf.trace.columns import Ints
from swapconf.words.phrases import phrase

_ROW = 8  # launches that are alike in a row are so for a reason
# where both part behind the end of a period: so many launches before, each found again so many times, tell how long it
# is; so many lengths are tried
_NEAR, _OFTEN, _LIKELY = 256, 16, 8
_MOVED = 8  # launches that are more among such as stand in another order


@dataclass(frozen=True, slots=True)
class Period:
    """Places ``low`` to ``high`` (not included) repeat themselves every ``length`` places.

    Attributes:
        start: Of the one that is copied.
        fringe: Further places, before or behind, that have a twin one period later or earlier, although some between do
            not.
    """

    low: int
    high: int
    length: int
    start: int
    fringe: tuple[int, ...] = ()

    @property
    def stop(self) -> int:
        return self.start + self.length


def periods(small: Sequence[Hashable], big: Sequence[Hashable]) -> tuple[tuple[Period, ...], tuple[Period, ...]]:
    """Those of the run with fewer layers, and the same of the run with more. Raises CannotGrow where the one is not the
    other with periods left out."""
    one, two = _coded(small, big)
    fewer: list[Period] = []
    more: list[Period] = []
    here = there = 0
    while True:
        same = alike(one[here:], two[there:])
        here, there = here + same, there + same
        if here == len(one) and there == len(two):
            return _with_fringes(one, fewer), _with_fringes(two, more)
        back, length = 0, _added(one[here:], two, there)
        if not length:
            seen, back, length = _added_before(one, two, here, there, floor=_reached(fewer))
            moved = shuffled(one[here:], two[there:])
            if moved and reach(one[here:], two[there:]) >= seen:
                here, there = here + moved, there + moved
                continue
        if length:
            here, there = here - back, there - back + length
            ends = _end_of(two[there - length : there], one, here, _reached(fewer)) or here, there
        else:
            found = _added_among(one, two, here, there, _reached(fewer))
            if found is None:
                raise CannotGrow(
                    phrase(
                        "the step with more layers is not that with fewer, repeated (launch {launch} of {count})",
                        launch=there + 1,
                        count=len(two),
                    )
                )
            moved, length, ends = found
            here, there = here + moved, there + moved + length
        fewer.append(_period(one, ends[0], length, _reached(fewer)))
        more.append(_period(two, ends[1], length, _reached(more)))


def launch_the_same(one: Sequence[Hashable], two: Sequence[Hashable]) -> bool:
    """But for the order of launches that stand near each other."""
    return are_alike(*_coded(one, two))


def _coded(small: Sequence[Hashable], big: Sequence[Hashable]) -> tuple[Ints, Ints]:
    codes: dict[Hashable, int] = {}
    one, two = (
        np.array([codes.setdefault(form, len(codes)) for form in forms], dtype=np.int64) for forms in (small, big)
    )
    return one, two


def _added(rest: Ints, two: Ints, there: int) -> int:
    """How much was added: what stands before it, again; of several lengths the one after which most is alike."""
    ahead = two[there + 1 : 2 * there + 1]
    lengths = np.flatnonzero(ahead == rest[0]) + 1 if len(rest) else np.array([len(two) - there])
    best = (0, 0)
    for length in lengths.tolist():
        if length <= there and np.array_equal(two[there - length : there], two[there : there + length]):
            best = max(best, (alike(rest, two[there + length :], SEEN) + (not len(rest)), -length))
    return -best[1]


def _added_before(one: Ints, two: Ints, here: int, there: int, floor: int) -> tuple[int, int, int]:
    """(seen, how far before, how much): a place up to here where the step repeats itself for a whole period on either
    side, and behind which both are alike but for the order for the longest: for ``seen`` places from here on. Zeros
    without one."""
    best = (0, 0, 0)
    for length in _lengths(two, max(there - (here - floor), 0), there):
        parting = np.concatenate([[-1], np.flatnonzero(two[:-length] != two[length:]), [len(two) - length]])
        for low, high in pairwise(parting.tolist()):
            back = there - min(high, there)
            if there - back - length > low and back <= here - floor:
                seen = reach(one[here - back :], two[there - back + length :]) - back
                best = max(best, (seen, -back, length))
    return best[0], -best[1], best[2]


def _added_among(one: Ints, two: Ints, here: int, there: int, floor: int) -> tuple[int, int, tuple[int, int]] | None:
    """(how far both are alike but for the order and what was added, how much that is, where it ends in either), where
    few launches are more among some that stand in another order, as copies of weights around a ``Receive``."""
    for length in range(1, _MOVED + 1):
        for moved in with_more(one[here:], two[there:], length):
            stop = there + moved + length
            rest = Counter(two[there:stop].tolist()) - Counter(one[here : here + moved].tolist())
            for end in range(stop, there + 2 * length - 1, -1):
                row = two[end - length : end]
                is_more = Counter(row.tolist()) == rest and np.array_equal(row, two[end - 2 * length : end - length])
                if is_more and (mine := _end_of(row, one, here + moved, floor)):
                    if reach(one[here + moved :], two[stop:]) >= _ROW:
                        return moved, length, (mine, end)
                    break
    return None


def _reached(found: Sequence[Period]) -> int:
    """Where the last of them ends."""
    return found[-1].high if found else 0


def _end_of(added: Ints, one: Ints, here: int, floor: int) -> int:
    """Where the run with fewer layers launches last what the other one launches once more: here, or where both have the
    same in another order, some way before; 0: nowhere."""
    ends = range(here, floor + len(added) - 1, -1)
    return next((end for end in ends if np.array_equal(one[end - len(added) : end], added)), 0)


def _lengths(codes: Ints, low: int, high: int) -> list[int]:
    """How long a period may be: how far behind itself each launch between two places is found again, most often."""
    votes: Counter[int] = Counter()
    for place in range(max(low, high - _NEAR), high):
        again = np.flatnonzero(codes[place + 1 : 2 * high] == codes[place])[:_OFTEN] + 1
        votes.update(again.tolist())
    return [length for length, _ in votes.most_common(_LIKELY)]


def _period(codes: Ints, high: int, length: int, floor: int) -> Period:
    """As far back as it reaches, but not into the one before."""
    low = high
    if high - floor >= length:
        differing = np.flatnonzero(codes[floor : high - length] != codes[floor + length : high])
        low = floor + int(differing[-1]) + 1 if len(differing) else floor
    if high - low < length:
        raise CannotGrow(
            phrase("what a layer adds to the step is not repeated in it (launch {launch})", launch=high + 1)
        )
    return Period(low, high, length, start=low + (high - low - length) // 2)


def _with_fringes(codes: Ints, found: Sequence[Period]) -> tuple[Period, ...]:
    """The first or last layer often does one thing more, or in another order, in the middle of what the others do."""
    ends = [0, *(period.high for period in found)]
    begins = [*(period.low for period in found), len(codes)]
    longer = []
    for number, period in enumerate(found):
        before = np.arange(ends[number], period.low)
        behind = np.arange(period.high, begins[number + 1])
        behind = behind[behind - period.length >= period.low]
        alike = [
            before[_in_rows(codes[before] == codes[before + period.length])],
            behind[_in_rows(codes[behind] == codes[behind - period.length])],
        ]
        longer.append(replace(period, fringe=tuple(np.concatenate(alike).tolist())))
    return tuple(longer)


def _in_rows(same: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Only what stands in a row of some, as single launches are often alike by chance."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    kept = np.zeros(len(same), dtype=np.bool_)
    for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        kept[low:high] = high - low >= _ROW
    return kept
