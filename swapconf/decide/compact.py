"""STRATEGY -> CONFIG: few lists that say it again. ``expand(compact(s))`` decides the same, or ``compact`` refuses.

With swap on, lists name layers. Where nothing is swapped, swap is off if each list can be said as counts per stage, as
lists then are (R3); if not, it is on with an empty list, so that layers can be named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from swapconf.config.config import (
    Config,
    EveryLayer,
    FullRecompute,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    SwapOff,
)
from swapconf.decide.cover import Entry, covers, needs_no_name
from swapconf.decide.expand import expand
from swapconf.decide.patterns import escaped
from swapconf.decide.requests import operators, stage_map
from swapconf.decide.stages import BadDeal, StageMap
from swapconf.decide.strategy import LayerStrategy, Recompute, Strategy, Swap
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin

Layers: TypeAlias = "frozenset[int]"
Say: TypeAlias = "Callable[[Layers], LayerSelection]"

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
    swaps, recomputes = _swaps(strategy), _recomputes(strategy)
    comm, comm_exclude = _comm(strategy, base)
    stages = stage_map(base, strategy.network.num_layers)
    lists = {*recomputes.values(), *comm.values(), *comm_exclude.values()}
    counts = {layers: made for layers in lists if (made := _counts(layers, stages)) is not None}
    swap_off = not swaps and len(counts) == len(lists)
    say = counts.__getitem__ if swap_off else _indices
    config = replace(
        base,
        swap=SwapOff() if swap_off else _swap(swaps, _everyone(strategy)),
        recompute=RecomputeConfig(
            full=_full(recomputes, _everyone(strategy), say),
            select=_select(((escaped(path), layers) for path, layers in recomputes.items() if path), say),
            select_comm=_select(comm.items(), say),
            select_comm_exclude=_select(comm_exclude.items(), say),
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


def _recomputes(strategy: Strategy) -> dict[str, Layers]:
    """Layers by the operator whose recompute they need, an inner one first, as the first takes what is below it; what
    the model itself recomputes needs no name."""
    found: dict[str, set[int]] = defaultdict(set)
    for one in strategy.layers:
        for path, action in one.plan.actions().items():
            by_model = one.layer.template.by_path[path].preset_recompute
            if isinstance(action, Recompute) and not (action.root == path and by_model):
                found[action.root].add(one.layer.index)
    return {path: frozenset(found[path]) for path in sorted(found, key=lambda path: (-path.count("."), path))}


def _comm(strategy: Strategy, base: Config) -> tuple[dict[str, Layers], dict[str, Layers]]:
    """Layers by the patterns of communication that runs again, and that does not: those of ``base`` where they say it,
    else one of each operator."""
    found: dict[bool, dict[str, set[int]]] = {True: defaultdict(set), False: defaultdict(set)}
    for one in strategy.layers:
        for path, again in one.plan.comm_recompute.items():
            found[again][escaped(path)].add(one.layer.index)
    named = {again: {name: frozenset(layers) for name, layers in paths.items()} for again, paths in found.items()}
    return _with_patterns(named[True], strategy, base), named[False]


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
    return {pattern: frozenset(layers) for pattern, layers in said.items()} if covered == whole else named


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


def _full(recomputes: Mapping[str, Layers], everyone: Layers, say: Say) -> FullRecompute | None:
    if "" not in recomputes:
        return None
    layers = recomputes[""]
    return FullRecompute(layers=EveryLayer() if layers == everyone else say(layers), origin=NOWHERE)


def _select(named: Iterable[tuple[str, Layers]], say: Say) -> tuple[SelectRecompute, ...]:
    return tuple(SelectRecompute(pattern=pattern, layers=say(layers), origin=NOWHERE) for pattern, layers in named)


def _indices(layers: Layers) -> LayerSelection:
    """All of them, too: with swap on, plain mindformers takes no True for a pattern."""
    return LayerIndices(tuple(sorted(layers)))


def _counts(layers: Layers, stages: StageMap) -> LayerSelection | None:
    """The same layers with swap off; None where they are not the first of each stage."""
    if len(layers) == len(stages.places):
        return EveryLayer()
    rows = [[0] * len(row) for row in stages.shares]
    for interleave, stage in (stages.places[layer] for layer in layers):
        rows[interleave][stage] += 1
    if stages.pipeline.zero_bubble_v and len(rows) > 1:
        rows[1].reverse()
    summed = [sum(stages.places[layer][1] == stage for layer in layers) for stage in range(len(rows[0]))]
    for made in (LayerCounts((tuple(summed),), False), LayerCounts(tuple(map(tuple, rows)), True)):
        if not stages.guessed and _selected(made, stages) == layers:
            return made
    return None


def _selected(counts: LayerCounts, stages: StageMap) -> Layers | None:
    try:
        return stages.selected(counts)
    except BadDeal:
        return None


def _everyone(strategy: Strategy) -> Layers:
    return frozenset(one.layer.index for one in strategy.layers)


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
