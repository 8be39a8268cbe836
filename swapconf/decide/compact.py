"""STRATEGY -> CONFIG: few lists that say it again. ``expand(compact(s))`` decides the same, or ``compact`` refuses.

With swap on, lists name layers. Where nothing is swapped, swap is off if each list can be said as counts per stage, as
lists then are (R3); if not, it is on with an empty list, so that layers can be named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from swapconf.config.config import (
    Config,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    SwapOff,
)
from swapconf.decide.cover import Entry, covers, needs_no_name, runs_again_anyway
from swapconf.decide.expand import expand
from swapconf.decide.patterns import escaped
from swapconf.decide.requests import operators, stage_map
from swapconf.decide.stages import StageMap
from swapconf.decide.strategy import LayerStrategy, Recompute, Strategy, Swap
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin

Layers: TypeAlias = "frozenset[int]"
Say: TypeAlias = "Callable[[Layers, Layers], LayerSelection]"  # layers, and those that it may name as well

NOWHERE = Origin(file="<compact>")
_PLACES = {"origin": NOWHERE, "layers_origin": NOWHERE, "prefetch_origin": NOWHERE}


class CannotCompact(ValueError):
    """No config of this form means the strategy; the text names the first site that would differ."""


def compact(strategy: Strategy, base: Config, versions: Versions) -> Config:
    """``base`` with swap and recompute replaced by lists that mean ``strategy``. Raises CannotCompact.

    ``base`` gives what is not part of a strategy: pipeline, runtime, model, and the patterns for communication. The
    names of ``op_swap`` are as few as `cover` finds. A swap that moves nothing, as the backward pass does not read the
    output, may come out as none.
    """
    swaps, lists = _swaps(strategy), _lists(strategy, base)
    counted = None if swaps else _counted(lists, stage_map(base, strategy.network.num_layers))
    config = replace(
        base,
        swap=_swap(swaps, lists.everyone) if counted is None else SwapOff(),
        recompute=replace(
            _said(lists, _indices) if counted is None else counted,
            mp_comm_recompute=base.recompute.mp_comm_recompute,
            recompute_slice_activation=base.recompute.recompute_slice_activation,
            parallel_optimizer_comm_recompute=base.recompute.parallel_optimizer_comm_recompute,
        ),
    )
    _verify(expand(config, strategy.network, versions), strategy)
    return config


# --- what has to be said --------------------------------------------------------------------------------------------


def _swaps(strategy: Strategy) -> dict[Entry, Layers]:
    """Layers by what swaps them: the layer itself, then cells before what is inside them, as the later name overrides;
    names of one list beside each other."""
    by_index: dict[int, list[LayerStrategy]] = defaultdict(list)
    for one in strategy.layers:
        by_index[one.layer.index].append(one)  # layers for multi-token prediction share the entries of the last one
    parts = [tuple((one.layer.template, one.plan.actions()) for one in found) for found in by_index.values()]
    found: dict[Entry, set[int]] = defaultdict(set)
    for index, entries in zip(by_index, covers(parts), strict=True):
        for entry in entries:
            found[entry].add(index)
    depths = {entry: entry[0].count(".") + 1 if entry[0] else 0 for entry in found}
    ordered = sorted(found, key=lambda entry: (depths[entry], entry[1], sorted(found[entry]), entry[0]))
    return {entry: frozenset(found[entry]) for entry in ordered}


@dataclass(frozen=True, slots=True)
class _Lists:
    """The layers that each list of `recompute_config` names, by pattern; ``full``: those of `recompute`."""

    everyone: Layers
    full: Layers
    select: Mapping[str, Layers]
    comm: Mapping[str, Layers]
    comm_exclude: Mapping[str, Layers]


def _lists(strategy: Strategy, base: Config) -> _Lists:
    """An inner operator comes first, as the first takes all
    below; patterns for communication are those of ``base`` where they say it, else one of each operator."""
    roots: dict[str, set[int]] = defaultdict(set)
    comm: dict[bool, dict[str, set[int]]] = {True: defaultdict(set), False: defaultdict(set)}
    for one in strategy.layers:
        for path, action in one.plan.actions().items():
            if isinstance(action, Recompute) and not runs_again_anyway(one.layer.template.by_path[path], action):
                roots[action.root].add(one.layer.index)
        for path, again in one.plan.comm_recompute.items():
            comm[again][escaped(path)].add(one.layer.index)
    full = roots.pop("", set())
    inner_first = sorted(roots, key=lambda path: (-path.count("."), path))
    return _Lists(
        everyone=frozenset(one.layer.index for one in strategy.layers),
        full=frozenset(full),
        select={escaped(path): frozenset(roots[path]) for path in inner_first},
        comm=_with_patterns(_frozen(comm[True]), strategy, base),
        comm_exclude=_frozen(comm[False]),
    )


def _frozen(named: Mapping[str, Iterable[int]]) -> dict[str, Layers]:
    return {name: frozenset(layers) for name, layers in named.items()}


def _with_patterns(named: dict[str, Layers], strategy: Strategy, base: Config) -> dict[str, Layers]:
    said: dict[str, set[int]] = defaultdict(set)
    covered: set[tuple[str, int]] = set()
    for entry in base.recompute.select_comm:
        for one in strategy.layers:
            index, paths = one.layer.index, operators(entry.pattern, one.layer.template)
            again = [path for path in paths if path in one.plan.comm_recompute]
            if again and all(index in named.get(escaped(path), ()) for path in again):
                said[entry.pattern].add(index)
                covered.update((escaped(path), index) for path in again)
    whole = {(name, index) for name, layers in named.items() for index in layers}
    return _frozen(said) if covered == whole else named


# --- as lists -------------------------------------------------------------------------------------------------------


def _swap(swaps: Mapping[Entry, Layers], everyone: Layers) -> ListedSwap:
    chosen = {
        entry: EveryLayer() if layers == everyone else LayerIndices(tuple(sorted(layers)))
        for entry, layers in swaps.items()
    }
    return ListedSwap(
        layer_swap=tuple(
            LayerSwap(layers=layers, prefetch=prefetch, **_PLACES)
            for (path, prefetch), layers in chosen.items()
            if not path
        ),
        op_swap=tuple(
            OpSwap(pattern=escaped(path), layers=layers, prefetch=prefetch, **_PLACES)
            for (path, prefetch), layers in chosen.items()
            if path
        ),
        given_entries=len(swaps),
    )


def _said(lists: _Lists, say: Say) -> RecomputeConfig:
    def named(select: Mapping[str, Layers], free: Layers) -> tuple[SelectRecompute, ...]:
        return tuple(
            SelectRecompute(pattern=pattern, layers=say(layers, free), origin=NOWHERE)
            for pattern, layers in select.items()
        )

    nowhere: Layers = frozenset()
    whole = EveryLayer() if lists.full == lists.everyone else None
    return RecomputeConfig(
        full=FullRecompute(layers=whole or say(lists.full, nowhere), origin=NOWHERE) if lists.full else None,
        select=named(lists.select, lists.full),  # a layer that is recomputed as a whole needs no selection
        select_comm=named(lists.comm, lists.full),
        select_comm_exclude=named(lists.comm_exclude, nowhere),
    )


def _indices(layers: Layers, _: Layers) -> LayerSelection:
    """All of them, too: with swap on, plain mindformers takes no True for a pattern."""
    return LayerIndices(tuple(sorted(layers)))


def _counted(lists: _Lists, stages: StageMap) -> RecomputeConfig | None:
    """The lists as they are with swap off; None where one of them is not of the first layers of each stage."""

    def say(layers: Layers, free: Layers) -> LayerSelection:
        selected = stages.selection(layers, free)
        if selected is None:
            raise CannotCompact(f"layers {sorted(layers)} are not the first of each stage")
        return selected

    try:
        return _said(lists, say)
    except CannotCompact:
        return None


# --- whether it is the same -----------------------------------------------------------------------------------------


def _verify(again: Strategy, strategy: Strategy) -> None:
    for one, other in zip(strategy.layers, again.layers, strict=True):
        wanted, found = one.plan.actions(), other.plan.actions()
        for path, action in wanted.items():
            idle = isinstance(action, Swap) and needs_no_name(one.layer.template.by_path[path], wanted)
            if found[path] != action and not (idle and not isinstance(found[path], Recompute)):
                raise CannotCompact(f"layer {one.layer.name}, {path}: {action} would become {found[path]}")
        for path, communicated in one.plan.comm_recompute.items():
            if other.plan.comm_recompute.get(path) != communicated:
                raise CannotCompact(f"layer {one.layer.name}, {path}: its communication would differ")
