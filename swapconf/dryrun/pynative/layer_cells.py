"""MODEL -> LAYERS: the decoder layers of a PyNative model, and those of multi-token prediction after them.

Works on ``mindspore.nn.Cell`` but imports nothing of mindspore.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WRAPPED = "_ckpt_wrapped_module"  # hyper_parallel's name of the cell inside of one that recomputes or swaps
_FIRST = "layer_start"  # mindformers 2.0.0, pynative/transformers/transformer_block.py; the container of layers has it


def layers_of(model: Any) -> Iterator[tuple[int, Any]]:
    """(number, cell) of each layer of this rank, as `swap` and `recompute` count them. The cell is the innermost one,
    which runs once more where it is recomputed."""
    return ((number, innermost(cell)) for number, cell in outermost_layers_of(model))


def outermost_layers_of(model: Any) -> Iterator[tuple[int, Any]]:
    """The same with what is around each."""
    decoder = next(
        (cell for _, cell in model.cells_and_names() if hasattr(cell, _FIRST) and hasattr(cell, "layers")), None
    )
    if decoder is None:
        return
    first = int(decoder.layer_start)
    for number, cell in enumerate(decoder.layers, first):
        yield number, cell
    extra = next((cell for name, cell in model.cells_and_names() if name.rpartition(".")[2] == "mtp"), None)
    for number, cell in enumerate(getattr(extra, "layers", ()), int(decoder.config.num_layers)):
        yield number, cell


def is_plain(model: Any) -> bool:
    """Whether nothing of it recomputes or swaps."""
    return not any(WRAPPED in getattr(cell, "_cells", {}) for _, cell in model.cells_and_names())


def innermost(cell: Any) -> Any:
    """Without the cells that swapping and recomputing put around it."""
    while WRAPPED in getattr(cell, "_cells", {}):
        cell = cell._cells[WRAPPED]
    return cell
