"""NODE + CATALOG -> the one of several operators alike that a node is, where its cell and its type do not tell."""

from __future__ import annotations

from swapconf.models.cells import ROUTER, ROUTER_DENSITY, ROUTER_PRODUCT, ROUTER_SCALED
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.cell_primitives import CellPrimitives
from swapconf.whatif.transposes import behind_experts, behind_flash, behind_view, one_of


def refined(
    baseline: Baseline,
    node: int,
    path: str,
    layer: CellPrimitives,
    known: frozenset[tuple[str, str]],
    *,
    is_served: bool,
) -> str | None:
    """``path``: of a node, by its cell and type; None for a view that nothing saves. ``known``: cells and types of its
    readers; ``is_served``: it or one of them names its cell."""
    primitive = baseline.kernels.primitive[node]
    if primitive == "Mul":
        return _of_density(baseline, node, path, layer)
    if primitive == "Transpose" or (node in baseline.turned and layer.by_path[path].type == "Transpose"):
        known_by = layer.by_path
        asked = (one(baseline, node, path, known_by) for one in (behind_flash, behind_view, behind_experts))
        return next(filter(None, asked), None) or one_of(baseline, node, path, known_by)
    if primitive in VIEWS and (_is_of_mean(baseline, node) or _is_behind_transpose(baseline, node, path, layer)):
        return None
    return layer.saved_view(path, known, is_lost=not is_served) if primitive in VIEWS else path


def transpose_of(baseline: Baseline, node: int, layer: CellPrimitives, known: frozenset[tuple[str, str]]) -> str | None:
    """The Transpose of a cell that a view of another order is, if it has one: of one head it is launched as a view."""
    if node not in baseline.turned or baseline.kernels.is_lost[node]:
        return None
    path = layer.path(baseline.kernels.cell[node], "Transpose", known)
    return None if path is None or layer.by_path[path].type != "Transpose" else path


def _is_of_mean(baseline: Baseline, node: int) -> bool:
    """Parallelism makes two of the mean of a router, each with a view behind it (DeepSeek-V3). The second one is of
    one element each, of which MindSpore's ``arithmetic_simplify`` of fused kernels makes a view without cells."""
    below, kernels = int(baseline.below[node]), baseline.kernels
    if below < 0 or kernels.cell[node].rpartition(".")[2] != ROUTER:
        return False
    if kernels.primitive[below] == "ReduceMean":
        return True
    made_of = int(baseline.below[below])
    is_simplified = kernels.is_lost[below] and baseline.views[below] and made_of >= 0 and baseline.views[made_of]
    return bool(is_simplified and not kernels.is_lost[node])


def _is_behind_transpose(baseline: Baseline, node: int, path: str, layer: CellPrimitives) -> bool:
    """A function of the cell has made it of what a Transpose of the cell made, which of one head is a view itself
    (GLM)."""
    below, kernels = int(baseline.below[node]), baseline.kernels
    is_transpose = layer.by_path[path].type == "Transpose" and not kernels.is_lost[node] and below >= 0
    return is_transpose and kernels.primitive[below] == "Transpose" and kernels.cell[below] == kernels.cell[node]


def _of_density(baseline: Baseline, node: int, path: str, layer: CellPrimitives) -> str:
    """A router multiplies the density of its experts, which is never recomputed, by an operator of its own, and that is
    as little recomputed (measured: Qwen3 MoE)."""
    cell, _, name = path.rpartition(".")
    density, scaled = layer.by_path.get(f"{cell}.{ROUTER_DENSITY}"), f"{cell}.{ROUTER_SCALED}"
    if (
        name != ROUTER_PRODUCT
        or scaled not in layer.by_path
        or density is None
        or density.preset_recompute is not False
    ):
        return path
    views = [face for face in baseline.reads.face[baseline.rows_of(node)].tolist() if baseline.views[face]]
    below = [int(baseline.below[view]) for view in views]
    is_scaled = any(baseline.kernels.primitive[one] == density.type for one in below if one >= 0)
    return scaled if is_scaled else path
