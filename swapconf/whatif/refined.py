"""NODE + CATALOG -> the one of several operators alike that a node is, where its cell and its type do not tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from swapconf.models.cells import (
    EXPERTS,
    KEY_AND_VALUE,
    ROTARY,
    ROUTER,
    ROUTER_DENSITY,
    ROUTER_PRODUCT,
    ROUTER_SCALED,
    SECOND_TRANSPOSE,
    TRANSPOSE,
    TRANSPOSES,
)
from swapconf.models.network import Operator
from swapconf.upstream.primitives import RESHAPE, VIEWS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.cell_primitives import CellPrimitives

_SPLIT, _KEY_OF_SPLIT = "SplitWithSize", 1
_FLASH = "FlashAttentionScore"
_FAR = 60  # nodes


def refined(
    baseline: Baseline,
    node: int,
    path: str,
    layer: CellPrimitives,
    readers: frozenset[tuple[str, str]],
    *,
    is_served: bool,
) -> str | None:
    """``path``: of a node, by its cell and type; None for a view that nothing saves. ``readers``: cells and types of
    what reads it; ``is_served``: it or one of them names its cell."""
    primitive = baseline.kernels.primitive[node]
    if primitive == "Mul":
        return _of_density(baseline, node, path, layer)
    if primitive == "Transpose" or (node in baseline.turned and layer.by_path[path].type == "Transpose"):
        by_path = layer.by_path
        paths = (rule(baseline, node, path, by_path) for rule in (behind_flash, behind_view, behind_experts))
        return next(filter(None, paths), None) or among_alike(baseline, node, path, by_path)
    if primitive in VIEWS and (_is_of_mean(baseline, node) or _is_behind_transpose(baseline, node, path, layer)):
        return None
    return layer.saved_view(path, readers, is_lost=not is_served) if primitive in VIEWS else path


def transpose_of(
    baseline: Baseline, node: int, layer: CellPrimitives, readers: frozenset[tuple[str, str]]
) -> str | None:
    """The Transpose of a cell that a view of another order is, if it has one: of one head it is launched as a view."""
    if node not in baseline.turned or baseline.kernels.is_lost[node]:
        return None
    path = layer.path(baseline.kernels.cell[node], "Transpose", readers)
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
    is_scaled = any(baseline.kernels.primitive[kernel] == density.type for kernel in below if kernel >= 0)
    return scaled if is_scaled else path


# --- Transposes -------------------------------------------------------------------------------------------------------


def behind_flash(baseline: Baseline, node: int, path: str, by_path: Mapping[str, Operator]) -> str | None:
    """The Transpose of the same cell that reads what flash attention makes in the catalog, where the node does."""
    faces = baseline.reads.face[baseline.rows_of(node)]
    if not any(baseline.kernels.primitive[face] == _FLASH for face in faces[faces >= 0].tolist()):
        return None
    return _behind(
        (operator for operator in by_path.values() if operator.type == _FLASH), path.rpartition(".")[0], by_path
    )


def behind_view(baseline: Baseline, node: int, path: str, by_path: Mapping[str, Operator]) -> str | None:
    """The Transpose of the same cell that reads a view of that in the catalog, where the node, a Transpose of one
    sample, does: mcore merges heads with a Transpose and a Reshape in front of it."""
    below, kernels, cell = int(baseline.below[node]), baseline.kernels, path.rpartition(".")[0]
    if below < 0 or not baseline.views[below] or kernels.cell[below] != kernels.cell[node]:
        return None
    views = (
        operator for operator in by_path.values() if operator.type in VIEWS and operator.path.rpartition(".")[0] == cell
    )
    return _behind(views, cell, by_path)


def behind_experts(baseline: Baseline, node: int, path: str, by_path: Mapping[str, Operator]) -> str | None:
    """The second Transpose of a network of experts, where the node reads what these make (mindformers 1.9.0,
    training_graph/transformer/moe/moe_layer.py); the first is in front of them."""
    cell, _, name = path.rpartition(".")
    second = f"{cell}.{SECOND_TRANSPOSE}"
    if name != TRANSPOSE or second not in by_path:
        return None
    faces = baseline.reads.face[baseline.rows_of(node)]
    cells = {
        baseline.kernels.cell[face] for face in [*faces[faces >= 0].tolist(), int(baseline.below[node])] if face >= 0
    }
    return second if f"{cell}.{EXPERTS}" in cells else None


def _behind(operators: Iterable[Operator], cell: str, by_path: Mapping[str, Operator]) -> str | None:
    """The first Transpose of a cell that reads one of these in the catalog."""
    readers = (reader for operator in operators for reader in operator.consumers)
    return next(
        (path for path in readers if path.rpartition(".")[0] == cell and by_path[path].type == "Transpose"), None
    )


def among_alike(baseline: Baseline, node: int, path: str, by_path: Mapping[str, Operator]) -> str:
    """``path``: of a Transpose, by its cell and type alone."""
    cell, _, name = path.rpartition(".")
    alike = TRANSPOSES.values()
    if name != TRANSPOSE or not all(
        (operator := by_path.get(f"{cell}.{sibling}")) and operator.executed for sibling in alike
    ):
        return path
    kernels, is_back = baseline.kernels, False
    near, seen = [node], {node}
    for current in near:  # grows
        is_back |= ROTARY in kernels.cell[current]
        is_key = _is_key(baseline, current, kernels.cell[node])
        if is_key is not None:
            return f"{cell}.{TRANSPOSES[is_key, is_back]}"
        faces = baseline.reads.face[baseline.rows_of(current)]
        for face in np.unique(faces[faces >= 0]).tolist():
            if face not in seen and kernels.passing[face] == kernels.passing[node] and len(near) < _FAR:
                seen.add(face)
                near.append(face)
    return path


def _is_key(baseline: Baseline, node: int, cell: str) -> bool | None:
    """Of the product of a Linear, or what reads a piece into which a cell splits query, key and value; else None."""
    if baseline.kernels.primitive[node] == "MatMul":
        return baseline.kernels.cell[node].rpartition(".")[2] in KEY_AND_VALUE
    for block in baseline.reads.block[baseline.rows_of(node)].tolist():
        maker = int(baseline.maker[block])
        if maker >= 0 and baseline.kernels.primitive[maker] == _SPLIT and baseline.kernels.cell[maker] == cell:
            return baseline.made[maker].index(block) == _KEY_OF_SPLIT
    return None


def reduction_of(baseline: Baseline, node: int, readers: Sequence[int], layer: CellPrimitives) -> str | None:
    """The reduction of a single number that a Reshape without a name is, between two that have one: MindSpore would
    have merged the three, had it been one from the beginning. With fused kernels it is one, else a ReduceMean is
    launched there (2.9.0: the loss of routers of TeleChat3-MoE; by which pass was not found)."""
    kernels, below = baseline.kernels, int(baseline.below[node])
    if not kernels.is_lost[node] or kernels.primitive[node] != RESHAPE or below < 0:
        return None
    beside = [below, *readers]
    is_between = len(beside) > 1 and all(kernels.primitive[neighbour] == RESHAPE for neighbour in beside)
    cells = {kernels.cell[neighbour] for neighbour in beside if not kernels.is_lost[neighbour]}
    return layer.reduction(*cells) if is_between and len(cells) == 1 else None
