"""NATIVE JUDGE -> PLANNED: the fastest plan that fits.

Plans are looked for in families, which do not depend on the budget. Each gives more and more of the first layers to a
mode that holds less: the first ``a`` layers are swapped, the next ones have one mode, the rest another that is faster.
Where a plan uses too much, those of its family before it are taken to use too much, too; what the pool loses to
fragments goes up and down, and the host holds more, so these are asked of one after another. So a larger budget never
makes a slower plan: whatever was found under the smaller one is found under it, too. The first layers of a pipeline are
those of its first stage; what a stage has no need of is taken back at last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from swapconf.plan.planned import Verdict
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.menu import mixed, moves, prefetches, recomputes, uniform
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeEntry, NativeMode, NativePlan
from swapconf.plan.pynative.simple import first_layers

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
            found = fastest(judge, family, best)
            best = found or best
            if best is None:
                lowest = min(lowest, *_that_could_fit(judge, family), key=judge.needed_bytes)
            progress()
        best = _no_slower_than_simple(judge, best)
    except KeyboardInterrupt:  # what was found until then is not lost
        is_interrupted = True
    if best is not None and len(judge.stages) > 1:
        best = spared(best, [stage.layers for stage in judge.stages], judge.fits)
    chosen = best or lowest
    return NativePlanned(judge=judge, verdict=verdict(judge, chosen), chosen=chosen, is_interrupted=is_interrupted)


def verdict(judge: NativeJudge, chosen: NativePlan) -> Verdict:
    """What it comes to that this is the best."""
    if not judge.fits(chosen):
        return Verdict.IMPOSSIBLE
    return Verdict.FULL if chosen == uniform(judge, FULL) else Verdict.PLANNED


def families(judge: NativeJudge, effort: float = 1.0) -> list[Family]:
    """Those that end in the fastest plan first. ``effort``: scales how many shares of swapped layers are tried."""
    modes, count, swaps = recomputes(judge), judge.num_layers, [SWAP, *moves(judge)]
    found: dict[Family, None] = {tuple(first_layers(judge, FULL)): None}  # though sets of modules may do as well
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


def spared(chosen: NativePlan, stages: Iterable[Collection[int]], fits: Callable[[NativePlan], bool]) -> NativePlan:
    """A plan that fits, with as many of the first layers of each stage kept as still do. ``stages``: their layers."""
    for layers in stages:
        again = [layer for layer in sorted(layers) if chosen.modes[layer] != KEEP]
        less = [chosen.keeping(again[:number]) for number in range(len(again), -1, -1)]
        chosen = less[bisect_left(less[:-1], True, key=fits)]
    return chosen


def _no_slower_than_simple(judge: NativeJudge, best: NativePlan | None) -> NativePlan | None:
    """The best, or the first layers recomputed or swapped, where these fit and are faster: more of them may use more,
    so that what would fit was passed over in their family."""
    if judge.is_out_of_reach:
        return best
    for mode in (FULL, SWAP):
        for made in first_layers(judge, mode):
            if not judge.allows(made):
                continue
            if (best is None or judge.cost_us(made) < judge.cost_us(best)) and judge.fits(made):
                best = made
                break
    return best


def fastest(judge: NativeJudge, family: Family, best: NativePlan | None) -> NativePlan | None:
    """The fastest of a family that fits and is faster than what is known; None without one."""

    def is_slower(made: NativePlan) -> bool:
        return best is not None and judge.cost_us(made) >= judge.cost_us(best)

    def is_enough(made: NativePlan) -> bool:
        return is_slower(made) or judge.could_fit(made)

    found: NativePlan | None = None
    if not is_enough(family[-1]):
        return found
    low = bisect_left(family[:-1], True, key=is_enough)
    for made in family[low:]:
        if not is_slower(made) and judge.fits(made):
            found = best = made
    return found


def _that_could_fit(judge: NativeJudge, family: Family) -> Family:
    """At least the last one."""
    return family[bisect_left(family[:-1], True, key=judge.could_fit) :]


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
