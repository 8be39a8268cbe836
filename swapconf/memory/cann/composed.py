"""COMPOSED KERNELS -> WORKSPACE: what aclnn puts together from several kernels, with tensors in between.

Where a kernel writes its result at last, that is no tensor in between. An axis that a kernel works along is not told;
it is the one in which the shapes differ.
"""

from __future__ import annotations

from swapconf.memory.cann.card import (
    FLOAT_BYTES,
    SYSTEM_BYTES,
    Card,
    Tensors,
    arrays,
    elements,
    item_bytes,
    pieces,
    size_bytes,
)
from swapconf.trace.trace import Tensor

_FEW, _AT_ONCE = 8, 32  # MAX_AICORE_CALC_DIM, PARALLEL_K of aclnn_topk.cpp


def gather_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """The index, of which the result has the shape, in 32 bits. Along another axis than the last all is transposed."""
    large, result = arrays(inputs), [*outputs[:1]]
    size = pieces(SYSTEM_BYTES, sum(map(elements, result)) * FLOAT_BYTES)
    if not large or not result or _is_along_last(large[0], result[0]):
        return size
    return size + pieces(*map(size_bytes, [*large, *result]))


def scatter_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """As to gather; along another axis than the last, table, index and source are transposed, and the result back."""
    large = arrays(inputs)
    if not large:
        return SYSTEM_BYTES
    table = large[0]
    index = next((tensor for tensor in large[1:] if _is_whole(tensor)), None)
    if index is None:  # a number for each row, as of the tensors of a loss
        return pieces(SYSTEM_BYTES, elements(table) // max(table.shape[-1], 1) * FLOAT_BYTES)
    size = pieces(SYSTEM_BYTES, elements(index) * FLOAT_BYTES)
    return size if _is_along_last(table, index) else size + pieces(*map(size_bytes, [*large, table]))


def gather_gradient_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Zeros for the table and the gradient in 32 bits, the index in 64; scattered into the zeros."""
    large = arrays(inputs)
    table = max(map(elements, [*outputs, *large[:1]]), default=0)
    others = large[1:] or large
    picked = max((elements(tensor) for tensor in others if _is_whole(tensor)), default=0)
    picked = picked or min(map(elements, others), default=0)
    return pieces(table * FLOAT_BYTES, picked * FLOAT_BYTES, picked * 8, SYSTEM_BYTES, 0)


def table_gradient_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Of an embedding, or what is added to picked rows: table and gradient in 32 bits, the index sorted."""
    large = arrays(inputs)
    table = max(map(elements, outputs), default=0)
    index = max((elements(tensor) for tensor in large if _is_whole(tensor)), default=0)
    source = max((elements(tensor) for tensor in large if not _is_whole(tensor)), default=0)
    return pieces(SYSTEM_BYTES, table * FLOAT_BYTES, source * FLOAT_BYTES, *[index * FLOAT_BYTES] * 4)


def add_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """What is added is copied where it does not lie in one piece, which is not told; the sum has a place of its own
    where it is wider than what it is added to."""
    large = arrays(inputs)
    if len(large) < 2:
        return 0
    target, other = large[0], large[1]
    wider = elements(target) * item_bytes(other) if item_bytes(other) > item_bytes(target) else 0
    return pieces(size_bytes(other), wider, 0, 0)


def topk_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Places in 32 bits before they are in 64; of a few (below 8), 32 of each row are found first."""
    places = next((tensor for tensor in outputs if _is_whole(tensor)), None)
    if places is None:
        return pieces(*(elements(tensor) * FLOAT_BYTES for tensor in outputs[-1:]), 0, 0)
    count = elements(places)
    found = pieces(count * FLOAT_BYTES, 0, 0)
    k = places.shape[-1] if places.shape else 1
    if 0 < k < _FEW:
        first = max(count // k, 1) * _AT_ONCE
        found += pieces(SYSTEM_BYTES, first * 8, first * FLOAT_BYTES, count * FLOAT_BYTES)
    return found


def sum_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Floats of 32 bits are summed up as they are; others are copied to the type of the result, or to 32 bits."""
    large = arrays(inputs)
    if not large or item_bytes(large[0]) >= FLOAT_BYTES:
        return pieces(0, 0)
    return pieces(0, 0, elements(large[0]) * max(FLOAT_BYTES, *map(item_bytes, outputs[:1]), 0))


def extreme_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """The place of each extreme in 32 bits."""
    return pieces(*(elements(tensor) * FLOAT_BYTES for tensor in outputs[:1]))


def elementwise_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Nothing where all numbers are of one type; else what is narrower is copied to the widest."""
    numbers = [tensor for tensor in arrays(inputs) if not _is_whole(tensor)]
    widest = max(map(item_bytes, numbers), default=0)
    narrow = [elements(tensor) * widest for tensor in numbers if item_bytes(tensor) < widest]
    return pieces(*narrow) if narrow else 0


def _is_whole(tensor: Tensor) -> bool:
    """Of integers or flags."""
    return "Int" in tensor.dtype or tensor.dtype == "Bool"


def _is_along_last(table: Tensor, index: Tensor) -> bool:
    return len(table.shape) == len(index.shape) and table.shape[:-1] == index.shape[:-1]
