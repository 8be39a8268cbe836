"""NODE + CATALOG -> which of several Transposes of an attention it is: those of keys and queries, to and back, and that
of what flash attention makes.

The cell of ChatGLM2's attention has four, and MindSpore names all of their nodes alike (mindformers 1.9.0,
models/glm2/glm2_transformer.py): what comes from a Linear of keys, or is the second that one of all three splits, is a
key, and what comes from the rotary embedding is transposed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from swapconf.models.cells import EXPERTS, KEY_AND_VALUE, ROTARY, SECOND_TRANSPOSE, TRANSPOSE, TRANSPOSES
from swapconf.models.network import Operator
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.baseline import Baseline

_SPLIT, _KEY_OF_SPLIT = "SplitWithSize", 1
_FLASH = "FlashAttentionScore"
_FAR = 60  # nodes


def behind_flash(baseline: Baseline, node: int, path: str, known: Mapping[str, Operator]) -> str | None:
    """The Transpose of the same cell that reads what flash attention makes in the catalog, where the node does."""
    faces = baseline.reads.face[baseline.rows_of(node)]
    if not any(baseline.kernels.primitive[face] == _FLASH for face in faces[faces >= 0].tolist()):
        return None
    return _behind((operator for operator in known.values() if operator.type == _FLASH), path.rpartition(".")[0], known)


def behind_view(baseline: Baseline, node: int, path: str, known: Mapping[str, Operator]) -> str | None:
    """The Transpose of the same cell that reads a view of that in the catalog, where the node, a Transpose of one
    sample, does: mcore merges heads with a Transpose and a Reshape in front of it."""
    below, kernels, cell = int(baseline.below[node]), baseline.kernels, path.rpartition(".")[0]
    if below < 0 or not baseline.views[below] or kernels.cell[below] != kernels.cell[node]:
        return None
    views = (one for one in known.values() if one.type in VIEWS and one.path.rpartition(".")[0] == cell)
    return _behind(views, cell, known)


def behind_experts(baseline: Baseline, node: int, path: str, known: Mapping[str, Operator]) -> str | None:
    """The second Transpose of a network of experts, where the node reads what these make (mindformers 1.9.0,
    training_graph/transformer/moe/moe_layer.py); the first is in front of them."""
    cell, _, name = path.rpartition(".")
    second = f"{cell}.{SECOND_TRANSPOSE}"
    if name != TRANSPOSE or second not in known:
        return None
    faces = baseline.reads.face[baseline.rows_of(node)]
    cells = {
        baseline.kernels.cell[face] for face in [*faces[faces >= 0].tolist(), int(baseline.below[node])] if face >= 0
    }
    return second if f"{cell}.{EXPERTS}" in cells else None


def _behind(operators: Iterable[Operator], cell: str, known: Mapping[str, Operator]) -> str | None:
    """The first Transpose of a cell that reads one of these in the catalog."""
    readers = (reader for operator in operators for reader in operator.consumers)
    return next((one for one in readers if one.rpartition(".")[0] == cell and known[one].type == "Transpose"), None)


def one_of(baseline: Baseline, node: int, path: str, known: Mapping[str, Operator]) -> str:
    """``path``: of a Transpose, by its cell and type alone."""
    cell, _, name = path.rpartition(".")
    alike = TRANSPOSES.values()
    if name != TRANSPOSE or not all((found := known.get(f"{cell}.{one}")) and found.executed for one in alike):
        return path
    kernels, is_back = baseline.kernels, False
    near, seen = [node], {node}
    for one in near:  # grows
        is_back |= ROTARY in kernels.cell[one]
        is_key = _is_key(baseline, one, kernels.cell[node])
        if is_key is not None:
            return f"{cell}.{TRANSPOSES[is_key, is_back]}"
        faces = baseline.reads.face[baseline.rows_of(one)]
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
