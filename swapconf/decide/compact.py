"""STRATEGY -> CONFIG: lists that say it again. ``expand(compact(s))`` makes the same decisions, or refuses.

Written with swap on, because lists then name layers exactly; with nothing swapped, swap is off where every recompute
covers every layer, and otherwise on with empty lists, which mindformers accepts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

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
from swapconf.decide.expand import expand
from swapconf.decide.patterns import escaped, primitives_below
from swapconf.decide.strategy import Action, LayerStrategy, Strategy, Swap
from swapconf.decide.strategy import Recompute as RecomputeAction
from swapconf.models.network import LayerTemplate
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin

NOWHERE = Origin(file="<compact>")


class CannotCompact(ValueError):
    """No config of this form means the strategy; the text names the first site that would differ."""


def compact(strategy: Strategy, base: Config, versions: Versions) -> Config:
    """``base`` with swap and recompute replaced by lists that mean ``strategy``. Raises CannotCompact.

    ``base`` gives what is not part of a strategy: pipeline, runtime, model.
    """
    everyone = frozenset(entry.layer.index for entry in strategy.layers)
    swaps: dict[tuple[str, int], set[int]] = defaultdict(set)
    recomputes: dict[str, set[int]] = defaultdict(set)
    for entry in strategy.layers:
        actions = entry.plan.actions()
        for root in _recompute_roots(entry, actions):
            recomputes[root].add(entry.layer.index)
        for path, prefetch in _swap_entries(entry.layer.template, actions):
            swaps[path, prefetch].add(entry.layer.index)
    config = _config(base, swaps, recomputes, everyone)
    _verify(expand(config, strategy.network, versions), strategy)
    return config


def _config(
    base: Config, swaps: dict[tuple[str, int], set[int]], recomputes: dict[str, set[int]], everyone: frozenset[int]
) -> Config:
    plain = not swaps and all(layers == everyone for layers in recomputes.values())
    swap = (
        SwapOff()
        if plain
        else ListedSwap(
            layer_swap=tuple(
                LayerSwap(layers=LayerIndices(tuple(sorted(layers))), prefetch=prefetch, **_PLACES)
                for (path, prefetch), layers in sorted(swaps.items())
                if not path
            ),
            op_swap=tuple(
                OpSwap(pattern=escaped(path), layers=LayerIndices(tuple(sorted(layers))), prefetch=prefetch, **_PLACES)
                for (path, prefetch), layers in sorted(swaps.items(), key=_outer_first)
                if path
            ),
            given_entries=len(swaps),
        )
    )
    recompute = RecomputeConfig(
        full=FullRecompute(layers=_selection(recomputes[""], everyone), origin=NOWHERE) if "" in recomputes else None,
        select=tuple(
            SelectRecompute(pattern=escaped(root), layers=_selection(layers, everyone), origin=NOWHERE)
            for root, layers in sorted(recomputes.items())
            if root
        ),
        mp_comm_recompute=base.recompute.mp_comm_recompute,
        recompute_slice_activation=base.recompute.recompute_slice_activation,
        parallel_optimizer_comm_recompute=base.recompute.parallel_optimizer_comm_recompute,
    )
    return replace(base, swap=swap, recompute=recompute)


_PLACES = {"origin": NOWHERE, "layers_origin": NOWHERE, "prefetch_origin": NOWHERE}


def _outer_first(item: tuple[tuple[str, int], set[int]]) -> tuple[int, str, int]:
    """A cell before what is inside it: the later name overrides."""
    (path, prefetch), _ = item
    return path.count("."), path, prefetch


def _selection(layers: set[int], everyone: frozenset[int]) -> LayerSelection:
    return EveryLayer() if layers == everyone else LayerIndices(tuple(sorted(layers)))


def _recompute_roots(entry: LayerStrategy, actions: dict[str, Action]) -> list[str]:
    """The operators that a config must name; what the model itself recomputes needs no name."""
    preset = {primitive.path for primitive in entry.layer.template.primitives if primitive.preset_recompute}
    return sorted(
        {
            action.root
            for path, action in actions.items()
            if isinstance(action, RecomputeAction) and not (action.root == path and path in preset)
        }
    )


def _swap_entries(template: LayerTemplate, actions: dict[str, Action]) -> list[tuple[str, int]]:
    """(operator, prefetch) pairs, as few as cover the swapped sites: the layer, else cells, else primitives."""
    chosen: list[tuple[str, int]] = []
    done: set[str] = set()
    cells = [operator.path for operator in template.operators if operator.kind == "cell"]
    for path in ["", *sorted(cells, key=lambda path: path.count(".")), *(p.path for p in template.primitives)]:
        below = [primitive.path for primitive in primitives_below(path, template)]
        prefetch = {
            action.prefetch if isinstance(action, Swap) else 0
            for action in map(actions.__getitem__, below)
            if not isinstance(action, RecomputeAction)
        }
        open_sites = [site for site in below if isinstance(actions[site], Swap) and site not in done]
        if open_sites and len(prefetch) == 1:
            chosen.append((path, prefetch.pop()))
            done.update(below)
    return chosen


def _verify(again: Strategy, strategy: Strategy) -> None:
    wanted, found = strategy.actions(), again.actions()
    for site, action in wanted.items():
        if found.get(site) != action:
            raise CannotCompact(f"layer {site[0]}, {site[1]}: {action} would become {found.get(site)}")
