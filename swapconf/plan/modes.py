"""PLAN -> CONFIG: what is decided for each layer, and the entries of a YAML that say it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from swapconf.config.config import (
    Config,
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    SelectRecompute,
    SwapOff,
)
from swapconf.decide.patterns import escaped
from swapconf.decide.requests import stage_map
from swapconf.models.network import Layer, LayerTemplate, Network
from swapconf.words.findings import Origin
from swapconf.words.units import spans

_PLANNED = Origin(file="<plan>")
_PLACES = {"origin": _PLANNED, "layers_origin": _PLANNED, "prefetch_origin": _PLANNED}


@dataclass(frozen=True, order=True, slots=True)
class Atom:
    """One thing that is asked of one operator of a layer: one entry of a YAML says it, of all layers that ask it.

    Attributes:
        path: Of the operator, "" for the whole layer.
        prefetch: ``backward_prefetch`` of a swap, 0 of a recompute.
    """

    kind: Literal["recompute", "swap"]
    path: str
    prefetch: int = 0

    def fits(self, template: LayerTemplate) -> bool:
        return not self.path or self.path in template.by_path


Mode: TypeAlias = frozenset[Atom]
Plan: TypeAlias = tuple[Mode, ...]  # by index of the layer; layers of multi-token prediction follow the last one
KEEP: Mode = frozenset()
RECOMPUTED: Mode = frozenset({Atom("recompute", "")})


def fitted(mode: Mode, template: LayerTemplate) -> Mode:
    """What of a mode a layer has operators for."""
    return mode if all(atom.fits(template) for atom in mode) else frozenset(a for a in mode if a.fits(template))


def uniform(mode: Mode, network: Network) -> Plan:
    """The same mode in all layers, as far as they have its operators."""
    return tuple(fitted(mode, layer.template) for layer in decoder_layers(network))


def decoder_layers(network: Network) -> tuple[Layer, ...]:
    return tuple(layer for layer in network.layers if layer.name.isdecimal())


@lru_cache(maxsize=4096)  # a search asks it of the same plans again and again
def entries(plan: Plan) -> tuple[Atom, ...]:
    """What the YAML has to say, in order."""
    return tuple(sorted({atom for mode in plan for atom in mode}))


def likeness(plan: Plan, other: Plan) -> float:
    """1 where both ask the same of the same operators, whatever the prefetch; 0 where they have nothing in common."""
    return sum(map(_alike, plan, other)) / max(len(plan), 1)


@lru_cache(maxsize=4096)
def _alike(mode: Mode, other: Mode) -> float:
    mine, its = ({(atom.kind, atom.path) for atom in one} for one in (mode, other))
    return len(mine & its) / len(mine | its) if mine | its else 1.0


def num_ranges(plan: Plan, base: Config) -> int:
    """Of layers, over all entries, as a person would say them: ranges and strides; of an entry of all layers none, and
    one where a count for each stage says it."""
    layers = _layers(plan)
    found = [len(spans(mine)) if len(mine) < len(plan) else 0 for mine in layers.values()]
    if sum(found) > len(found) and is_counted(plan, base):
        return sum(map(bool, found))
    return sum(found)


def is_counted(plan: Plan, base: Config) -> bool:
    """Whether counts per stage say it: nothing is swapped, and what is recomputed are the first layers of stages."""
    layers = _layers(plan)
    return all(atom.kind == "recompute" for atom in layers) and _counted(layers, base, len(plan)) is not None


def _layers(plan: Plan) -> dict[Atom, list[int]]:
    """By what is asked, of which layers."""
    found: dict[Atom, list[int]] = defaultdict(list)
    for index, mode in enumerate(plan):
        for atom in mode:
            found[atom].append(index)
    return found


def config_of(plan: Plan, base: Config) -> Config:
    """``base`` with swap and recompute as planned; what else its sections say of recompute stays. With nothing swapped,
    swap is off where counts say which layers are recomputed, and else on with an empty list, as `compact` writes it."""
    layers = _layers(plan)
    chosen = {atom: _selection(layers[atom], len(plan)) for atom in sorted(layers, key=_outer_first)}
    swaps = [(atom, found) for atom, found in chosen.items() if atom.kind == "swap"]
    counted = None if swaps else _counted(layers, base, len(plan))
    again = [(atom, found) for atom, found in (counted or chosen).items() if atom.kind == "recompute"]
    swap = ListedSwap(
        layer_swap=tuple(
            LayerSwap(layers=found, prefetch=atom.prefetch, **_PLACES) for atom, found in swaps if not atom.path
        ),
        op_swap=tuple(
            OpSwap(pattern=escaped(atom.path), layers=found, prefetch=atom.prefetch, **_PLACES)
            for atom, found in swaps
            if atom.path
        ),
        given_entries=len(swaps),
    )
    full = [FullRecompute(layers=found, origin=_PLANNED) for atom, found in again if not atom.path]
    return replace(
        base,
        swap=swap if counted is None else SwapOff(),
        recompute=replace(
            base.recompute,
            full=full[0] if full else None,
            select=tuple(
                SelectRecompute(pattern=escaped(atom.path), layers=found, origin=_PLANNED)
                for atom, found in again
                if atom.path
            ),
            select_comm=(),
            select_exclude=(),
            select_comm_exclude=(),
        ),
    )


def _counted(layers: Mapping[Atom, Sequence[int]], base: Config, count: int) -> dict[Atom, LayerSelection] | None:
    """The same lists as they are read with swap off; None where one of them is not of the first layers of each stage. A
    layer that is recomputed as a whole needs no selection."""
    stages, whole = stage_map(base, count), frozenset(layers.get(Atom("recompute", ""), ()))
    found: dict[Atom, LayerSelection] = {}
    for atom in sorted(layers, key=_outer_first):
        selected = stages.selection(frozenset(layers[atom]), whole if atom.path else frozenset())
        if selected is None:
            return None
        found[atom] = selected
    return found


def _outer_first(atom: Atom) -> tuple[int, Atom]:
    """A cell before what is inside it: the later name overrides."""
    return (atom.path.count(".") + 1 if atom.path else 0), atom


def _selection(layers: Sequence[int], count: int) -> LayerSelection:
    return EveryLayer() if len(layers) == count else LayerIndices(tuple(layers))


def told(mode: Iterable[Atom]) -> str:
    """``recompute attention + swap feed_forward (20)``, for tests and people who look into a search."""
    return " + ".join(
        f"{atom.kind} {atom.path or 'layer'}" + (f" ({atom.prefetch})" if atom.prefetch else "")
        for atom in sorted(mode)
    )
