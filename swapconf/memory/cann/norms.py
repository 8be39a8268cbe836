"""NORMS -> WORKSPACE."""

from __future__ import annotations

from swapconf.memory.cann.card import FLOAT_BYTES, SYSTEM_BYTES, Card, Tensors, arrays, ceil_div, elements, up


def norm_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    return SYSTEM_BYTES + 256


def norm_gradient_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Eight sums for each core that gets rows; where sums have a fixed order, a row more (chunks of it, of very large
    tensors, take less)."""
    rows, columns = _rows(inputs)
    if rows <= 0 or columns <= 0:
        return SYSTEM_BYTES + card.vector_cores * (max(columns, 0) + 8) * FLOAT_BYTES
    cores = ceil_div(rows, ceil_div(rows, card.vector_cores))
    row = 0 if card.deterministic is False else up(columns, 16)
    return SYSTEM_BYTES + cores * (row + 8) * FLOAT_BYTES


def _rows(inputs: Tensors) -> tuple[int, int]:
    """(rows, columns) of dy, by the weight: the last array, of one axis."""
    large = arrays(inputs)
    if not large:
        return 0, 0
    columns = large[-1].shape[-1] if len(large) > 3 and len(large[-1].shape) == 1 else large[0].shape[-1]
    return (elements(large[0]) // columns if columns > 0 else 0), columns
