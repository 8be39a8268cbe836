"""NATIVE JUDGE -> PLANNED: the fastest plan that fits.

Plans are looked for in families, which do not depend on the budget. Each gives more and more of the first layers to a
mode that holds less: the first ``a`` layers are swapped, the next ones have one mode, the rest another that is faster.
Where a plan does not fit, those of its family before it are taken not to fit either. So a larger budget never makes a
slower plan: whatever was found under the smaller one is found under it, too. The first layers of a pipeline are those
of its first stage; what a stage has no need of is taken back at last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.menu import mixed, moves, prefetches, recomputes, uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeEntry, NativeMode, NativePlan

_SHARES = 4  # of the layers that are swapped, beside another mode; with an effort of 1
Family: TypeAlias = tuple[NativePlan, ...]  # each holds less than the one before


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeWorth:
    """An entry of a plan: what it would take more, and how much less time, without it."""

    entry: NativeEntry
    saved_bytes: int
    cost_us: float
    moved_bytes: int


@dataclass(frozen=True, kw_only=True)
class NativePlanned:
    """``chosen``: where nothing fits the plan that needs least. ``is_interrupted``: the search was ended early."""

    judge: NativeJudge = field(repr=False)
    verdict: Verdict
    chosen: NativePlan
    is_interrupted: bool = False

    @property
    def worth(self) -> Iterator[NativeWorth]:
        judge, whole = self.judge, self.chosen
        for entry in whole.entries:
            less = whole.without(entry)
            yield NativeWorth(
                entry=entry,
                saved_bytes=judge.used_bytes(less) - judge.used_bytes(whole),
                cost_us=judge.time(whole).step_us - judge.time(less).step_us,
                moved_bytes=judge.moved_bytes(whole) - judge.moved_bytes(less),
            )


def plan(
    judge: NativeJudge, tried: Sequence[Family] | None = None, progress: Callable[[], None] = lambda: None
) -> NativePlanned:
    """``tried``: None for all families. ``progress``: called after each of them."""
    keep = uniform(judge, KEEP)
    if judge.fits(keep):
        return NativePlanned(judge=judge, verdict=Verdict.NOT_NEEDED, chosen=keep)
    full = uniform(judge, FULL)
    best: NativePlan | None = None
    simple = [keep, full]
    if judge.is_out_of_reach and judge.allows(uniform(judge, SWAP)):  # else some family ends in it
        simple.append(uniform(judge, SWAP))
    lowest = min(simple, key=judge.needed_bytes)
    is_interrupted = False
    try:
        for family in families(judge) if tried is None else tried:
            found = _fastest(judge, family, best)
            best = found or best
            if best is None:
                lowest = min(lowest, family[-1], key=judge.needed_bytes)
            progress()
        best = best and _no_slower_than_simple(judge, best)
    except KeyboardInterrupt:  # what was found until then is not lost
        is_interrupted = True
    if best is not None and len(judge.stages) > 1:
        best = spared(best, [stage.layers for stage in judge.stages], judge.fits)
    verdict = Verdict.IMPOSSIBLE if best is None else Verdict.FULL if best == full else Verdict.PLANNED
    return NativePlanned(judge=judge, verdict=verdict, chosen=best or lowest, is_interrupted=is_interrupted)


def families(judge: NativeJudge, effort: float = 1.0) -> list[Family]:
    """Those that end in the fastest plan first. ``effort``: scales how many shares of swapped layers are tried."""
    modes, count, swaps = recomputes(judge), judge.num_layers, [SWAP, *moves(judge)]
    found: dict[Family, None] = {}
    for faster, slower in combinations(modes, 2):
        found[_first_layers(judge, 0, slower, faster)] = None
    for prefetch in prefetches(judge):
        most = count - prefetch
        for mode in modes:
            for swap in swaps:
                made = [mixed(judge, [swap] * a + [mode] * (count - a), prefetch) for a in range(most + 1)]
                found[tuple(made)] = None
        for share in _shares(most, max(1, round(_SHARES * effort))):
            for faster, slower in combinations(modes, 2):
                found[_first_layers(judge, share, slower, faster, prefetch)] = None
    allowed = [tuple(one for one in family if judge.allows(one)) for family in found]
    return sorted(filter(None, allowed), key=lambda family: judge.cost_us(family[-1]))


def fewest(judge: NativeJudge, mode: NativeMode, prefetch: int = 1) -> NativePlan:
    """As few of the first layers with a mode as it takes, the rest kept; all of them where that is not enough."""
    family = [_first(judge, number, mode, prefetch) for number in range(judge.num_layers + 1)]
    return family[-1] if judge.is_out_of_reach else family[_first_that(family, judge.fits)]


def spared(chosen: NativePlan, stages: Iterable[Collection[int]], fits: Callable[[NativePlan], bool]) -> NativePlan:
    """A plan that fits, with as many of the first layers of each stage kept as still do. ``stages``: their layers."""
    for layers in stages:
        again = [layer for layer in sorted(layers) if chosen.modes[layer] != KEEP]
        less = [chosen.keeping(again[:number]) for number in range(len(again), -1, -1)]
        chosen = less[_first_that(less, fits)]
    return chosen


def _no_slower_than_simple(judge: NativeJudge, best: NativePlan) -> NativePlan:
    """The best, or the first layers recomputed or swapped, where these fit and are faster: more of them may lose more
    to fragments, so that the family that they belong to was given up."""
    for mode in (FULL, SWAP):
        for number in range(judge.num_layers + 1):
            made = _first(judge, number, mode, 1)
            if judge.allows(made) and judge.cost_us(made) < judge.cost_us(best) and judge.fits(made):
                best = made
                break
    return best


def _fastest(judge: NativeJudge, family: Family, best: NativePlan | None) -> NativePlan | None:
    """The fastest of a family that fits and is faster than what is known; None without one."""

    def is_slower(made: NativePlan) -> bool:
        return best is not None and judge.cost_us(made) >= judge.cost_us(best)

    def is_enough(made: NativePlan) -> bool:
        return is_slower(made) or judge.fits(made)

    found: NativePlan | None = None
    if not is_enough(family[-1]):
        return found
    low = _first_that(family, is_enough)
    for made in family[low:]:
        if not is_slower(made) and judge.fits(made):
            found = best = made
    return found


def _first_that(family: Sequence[NativePlan], holds: Callable[[NativePlan], bool]) -> int:
    """Where it begins to hold, if it holds from there on; else the last."""
    low, high = 0, len(family) - 1
    while low < high:
        middle = (low + high) // 2
        if holds(family[middle]):
            high = middle
        else:
            low = middle + 1
    return low


def _first(judge: NativeJudge, number: int, mode: NativeMode, prefetch: int) -> NativePlan:
    return mixed(judge, [mode] * number + [KEEP] * (judge.num_layers - number), prefetch)


def _first_layers(
    judge: NativeJudge, swapped: int, slower: NativeMode, faster: NativeMode, prefetch: int = 1
) -> Family:
    left = judge.num_layers - swapped
    return tuple(
        mixed(judge, [SWAP] * swapped + [slower] * number + [faster] * (left - number), prefetch)
        for number in range(left + 1)
    )


def _shares(most: int, count: int) -> list[int]:
    """Up to so many numbers of layers, from few to ``most``."""
    return sorted({max(1, most * number // count) for number in range(1, count + 1)}) if most > 0 else []
