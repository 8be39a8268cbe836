"""STRATEGY -> EDITS: what has to be called on the real cells, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from swapconf.decide.strategy import LayerPlan, Swap
from swapconf.models.network import LayerTemplate


@dataclass(frozen=True, slots=True)
class Offload:
    """``Cell.offload`` or ``Primitive._offload`` at ``path`` ("" is the layer)."""

    path: str
    prefetch: int


@dataclass(frozen=True, slots=True)
class RecomputeCell:
    """``Cell.recompute`` at ``path`` ("" is the layer) with keyword ``options``."""

    path: str
    options: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecomputePrimitive:
    """``Primitive.recompute`` at ``path``, on or off."""

    path: str
    on: bool


@dataclass(frozen=True, slots=True)
class RecomputeComm:
    """The attribute ``recompute_comm_op`` of the primitive at ``path``."""

    path: str
    on: bool


Edit: TypeAlias = "Offload | RecomputeCell | RecomputePrimitive | RecomputeComm"


def edits(plan: LayerPlan, template: LayerTemplate, options: Mapping[str, bool]) -> tuple[Edit, ...]:
    """The edits of one layer: recompute first, then exclusions, then swap, as mindformers does.

    ``options``: keyword arguments for ``Cell.recompute``. Swap is flagged exactly at the decided sites: a cell is
    flagged as one where every primitive below it has the same decision.
    """
    result: list[Edit] = []
    for outcome in plan.outcomes:
        path, kind = outcome.request.operator, outcome.request.kind
        if outcome.void is not None or outcome.request.is_swap:
            continue
        is_cell = not path or template.by_path[path].kind == "cell"
        if kind in ("recompute", "select_recompute"):
            # slicing is documented for the output of a layer
            kept = {name: value for name, value in options.items() if not path or name != "recompute_slice_activation"}
            result.append(RecomputeCell(path, kept) if is_cell else RecomputePrimitive(path, True))
        elif kind == "select_recompute_exclude":
            result.append(RecomputePrimitive(path, False))
    result.extend(RecomputeComm(path, on) for path, on in plan.comm_recompute.items())
    result.extend(_offloads(plan, template))
    return tuple(result)


def _offloads(plan: LayerPlan, template: LayerTemplate) -> list[Offload]:
    prefetch = {
        path: decision.action.prefetch for path, decision in plan.decisions.items() if isinstance(decision.action, Swap)
    }
    below: dict[str, list[int | None]] = {}  # cell ("" too) -> the prefetch of each primitive below it
    for primitive in template.primitives:
        value = prefetch.get(primitive.path)
        below.setdefault("", []).append(value)
        names = primitive.path.split(".")
        for depth in range(1, len(names)):
            below.setdefault(".".join(names[:depth]), []).append(value)

    chosen: dict[str, int] = {}

    def covered(path: str) -> bool:
        names = path.split(".")
        return "" in chosen or any(".".join(names[:depth]) in chosen for depth in range(1, len(names)))

    whole = {path: values[0] for path, values in below.items() if values[0] is not None and len(set(values)) == 1}
    for path in sorted(whole, key=lambda path: (path != "", path.count("."))):
        value = whole[path]
        if not covered(path) and value is not None:
            chosen[path] = value
    for path, value in prefetch.items():
        if not covered(path):
            chosen[path] = value
    return [Offload(path, value) for path, value in chosen.items()]
