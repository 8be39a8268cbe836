"""PLAN -> PLANS: its modes in other arrangements of the layers, as a person would write them.

The layers of a stage come in blocks, one for each mode, or one mode has each second, third or fourth of them. A stage
has as many layers of each mode as before, or one or two of another mode instead, or one mode less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

from swapconf.plan.judge import Judge
from swapconf.plan.modes import Atom, Mode, Plan, entries

_Counts: TypeAlias = "tuple[tuple[int, ...], ...]"  # by stage and mode, how many layers
_STRIDES = (2, 3, 4)
_MANY = 4  # modes: of more, not all orders are tried
_MORE = (1, 2)  # layers of a stage that get another mode


@dataclass(frozen=True, slots=True)
class Arranged:
    """``deal``: what is the same in all arrangements of so many layers with each mode."""

    plan: Plan
    deal: _Counts


def arranged(judge: Judge, plan: Plan) -> Iterator[Arranged]:
    """``plan`` comes back, too, where it is arranged like this; no plan comes twice."""
    modes = _by_place(plan)
    seen: set[Plan] = set()
    for deal in dict.fromkeys(_deals(judge, plan, modes)):
        for order in _orders([mode for mode in range(len(modes)) if any(counts[mode] for counts in deal)]):
            for strided, step, backwards in _ways(order):
                chosen: list[Mode] = list(plan)
                for layers, counts in zip(judge.stages, deal, strict=True):
                    for index, mode in zip(layers, _laid(counts, order, strided, step, backwards), strict=True):
                        chosen[index] = modes[mode]
                made = judge.fitted(chosen)
                if made not in seen and judge.allows(made):
                    seen.add(made)
                    yield Arranged(made, deal)


def nearby(judge: Judge, plan: Plan) -> Iterator[Plan]:
    """With one entry or one mode arranged otherwise: an entry in as many of the first or the last layers of each stage,
    in all from its first to its last, or nowhere; two layers that change places; one layer that is as its neighbour;
    with no longer prefetch than `check` takes without a warning, or half of that, ..."""
    if any(atom.prefetch >= judge.warned_prefetch for atom in entries(plan)):
        yield from _returned_later(judge, plan)
    for atom in entries(plan):
        yield from _one_entry(judge, plan, atom)
    for layers in judge.stages:
        for place, index in enumerate(layers):
            for other in layers[place + 1 :]:
                if plan[index] != plan[other]:
                    yield judge.fitted(_changed(plan, {index: plan[other], other: plan[index]}))
            for neighbour in layers[max(place - 1, 0) : place + 2]:
                if plan[index] != plan[neighbour]:
                    yield judge.fitted(_changed(plan, {index: plan[neighbour]}))


def _one_entry(judge: Judge, plan: Plan, atom: Atom) -> Iterator[Plan]:
    for backwards in (False, True):
        chosen = [mode - {atom} for mode in plan]
        for layers in judge.stages:
            count = sum(atom in plan[index] for index in layers)
            for index in layers[len(layers) - count :] if backwards else layers[:count]:
                chosen[index] |= {atom}
        yield judge.fitted(chosen)
    mine = [index for index, mode in enumerate(plan) if atom in mode]
    hull = range(mine[0], mine[-1] + 1)
    yield judge.fitted(mode | {atom} if index in hull else mode for index, mode in enumerate(plan))
    yield tuple(mode - {atom} for mode in plan)


def _returned_later(judge: Judge, plan: Plan) -> Iterator[Plan]:
    """The longest prefetches first."""
    most = judge.warned_prefetch // 2
    while most:
        less = {atom: replace(atom, prefetch=most) for atom in entries(plan) if atom.prefetch > most}
        yield tuple(frozenset(less.get(atom, atom) for atom in mode) for mode in plan)
        most //= 2


def _changed(plan: Plan, new: dict[int, Mode]) -> Plan:
    return tuple(new.get(index, mode) for index, mode in enumerate(plan))


def _by_place(plan: Plan) -> list[Mode]:
    """The modes, those of earlier layers first."""
    count = Counter(plan)
    middle = {mode: sum(index for index, one in enumerate(plan) if one == mode) / count[mode] for mode in count}
    return sorted(count, key=lambda mode: (middle[mode], sorted(mode)))


def _deals(judge: Judge, plan: Plan, modes: Sequence[Mode]) -> Iterator[_Counts]:
    here = [[sum(plan[index] == mode for index in layers) for mode in modes] for layers in judge.stages]
    yield _frozen(here)
    pairs = list(permutations(range(len(modes)), 2))
    for one, other in pairs:
        yield _frozen([_moved(counts, one, other, counts[one]) for counts in here])
    for more in _MORE:
        for one, other in pairs:
            yield _frozen([_moved(counts, one, other, min(more, counts[one])) for counts in here])
    if len(here) > 1:
        for stage, counts in enumerate(here):
            for one, other in pairs:
                yield _frozen([*here[:stage], _moved(counts, one, other, min(1, counts[one])), *here[stage + 1 :]])


def _moved(counts: Sequence[int], one: int, other: int, number: int) -> list[int]:
    found = list(counts)
    found[one] -= number
    found[other] += number
    return found


def _frozen(counts: Sequence[Sequence[int]]) -> _Counts:
    return tuple(map(tuple, counts))


def _orders(modes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if len(modes) <= _MANY:
        yield from permutations(modes)
    else:
        yield tuple(modes)
        yield tuple(reversed(modes))


def _ways(order: Sequence[int]) -> Iterator[tuple[int | None, int, bool]]:
    """(the mode that has each so many-th layer, of how many, whether it has the last one)"""
    yield None, 1, False
    for mode in order:
        for step in _STRIDES:
            yield mode, step, False
            yield mode, step, True


def _laid(counts: Sequence[int], order: Sequence[int], strided: int | None, step: int, backwards: bool) -> list[int]:
    """The mode of each layer of a stage. A stage where the stride is too long has blocks alone."""
    size = sum(counts)
    if strided is None or (counts[strided] - 1) * step >= size:
        return [mode for mode in order for _ in range(counts[mode])]
    taken = set(range(0, counts[strided] * step, step))
    if backwards:
        taken = {size - 1 - place for place in taken}
    rest = iter([mode for mode in order if mode != strided for _ in range(counts[mode])])
    return [strided if place in taken else next(rest) for place in range(size)]
