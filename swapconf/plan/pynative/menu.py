"""NATIVE JUDGE -> MENU: the modes and prefetches that are worth deciding between, each tried in all layers at once.

Sets of modules grow by what saves most for its time, from the cheapest to the one that saves as much as full recompute.
None of this depends on a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.modes import FULL, KEEP, SWAP, NativeMode, NativePlan

PREFETCHES = (1, 2, 4)
_WORTH = 0.01  # of what full recompute saves: what a module has to save
_LONGEST = 4  # modules of a mode
_WORTH_MOVING = 0.1  # of what the swap of whole layers saves
_SINGLE = 2  # modules whose swap is tried
_NOISE = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tried:
    """A mode in all layers."""

    mode: NativeMode
    used_bytes: int
    step_us: float


def uniform(judge: NativeJudge, mode: NativeMode, prefetch: int = 1) -> NativePlan:
    """The same mode in all layers, as far as they have its modules; the last ones, behind which no layer comes that
    would say when, are not swapped."""
    return mixed(judge, [mode] * judge.num_layers, prefetch)


def mixed(judge: NativeJudge, modes: Sequence[NativeMode], prefetch: int = 1) -> NativePlan:
    """``modes``: one for each layer, as far as it has their modules."""
    last = judge.num_layers - prefetch
    made = [
        (KEEP if mode.is_swapped and layer >= last else mode).within(paths)
        for layer, (mode, paths) in enumerate(zip(modes, judge.paths, strict=True))
    ]
    return NativePlan(tuple(made), prefetch if any(mode.is_swapped for mode in made) else 1)


def recomputes(judge: NativeJudge) -> list[NativeMode]:
    """Without swap, from nothing to all, the fastest first; each holds less than those before."""
    tried = [_tried(judge, KEEP), _tried(judge, FULL)]
    worth = (tried[0].used_bytes - tried[1].used_bytes) * _WORTH
    at = tried[0]
    for _ in range(_LONGEST):
        larger = [_tried(judge, mode) for mode in _larger(judge, at.mode)]
        useful = [one for one in larger if at.used_bytes - one.used_bytes > max(worth, 0)]
        tried += useful
        if not useful:
            break
        at = max(useful, key=lambda one: (_saved_for_time(at, one), sorted(one.mode.again)))
    return [one.mode for one in _front(tried)]


def prefetches(judge: NativeJudge) -> list[int]:
    """Of the swap of whole layers, with those that are faster than a smaller one."""
    found: list[int] = []
    fastest = float("inf")
    for prefetch in PREFETCHES:
        plan = uniform(judge, SWAP, prefetch)
        if not plan.entries or not judge.allows(plan):
            continue
        step_us = judge.time(plan).step_us
        if step_us < fastest * (1 - _NOISE):
            found.append(prefetch)
            fastest = step_us
    return found


def moves(judge: NativeJudge) -> list[NativeMode]:
    """Swaps of a single module that save more for their time than that of whole layers, those that save most first;
    none where nothing is swapped, as in pipelines."""
    if not judge.allows(uniform(judge, SWAP)):
        return []
    none, layers = _tried(judge, KEEP), _tried(judge, SWAP)
    worth = (none.used_bytes - layers.used_bytes) * _WORTH_MOVING
    found: list[_Tried] = []
    for path in sorted(frozenset[str]().union(*judge.paths)):
        mode = NativeMode(moved=frozenset({path}))
        if judge.allows(uniform(judge, mode)):
            one = _tried(judge, mode)
            is_better = _saved_for_time(none, one) > _saved_for_time(none, layers)
            if is_better and none.used_bytes - one.used_bytes > max(worth, 0):
                found.append(one)
    return [one.mode for one in sorted(found, key=lambda one: (one.used_bytes, sorted(one.mode.moved)))[:_SINGLE]]


def _larger(judge: NativeJudge, mode: NativeMode) -> Iterator[NativeMode]:
    """With one module more."""
    for path in sorted(frozenset[str]().union(*judge.paths)):
        if (made := mode.joined(path)) is not None:
            yield made


def _tried(judge: NativeJudge, mode: NativeMode) -> _Tried:
    plan = uniform(judge, mode)
    return _Tried(mode=mode, used_bytes=judge.used_bytes(plan), step_us=judge.time(plan).step_us)


def _saved_for_time(before: _Tried, after: _Tried) -> float:
    return (before.used_bytes - after.used_bytes) / max(after.step_us - before.step_us, 1e-3)


def _front(tried: Sequence[_Tried]) -> list[_Tried]:
    """Without what two others do as well together, one in some layers and the other in the rest."""
    left: list[_Tried] = []
    for one in sorted(tried, key=lambda one: (one.step_us, one.used_bytes, sorted(one.mode.again))):
        if left and one.used_bytes >= left[-1].used_bytes * (1 - _NOISE):
            continue
        while len(left) > 1 and _saved_for_time(left[-2], left[-1]) <= _saved_for_time(left[-2], one):
            left.pop()
        left.append(one)
    return left
