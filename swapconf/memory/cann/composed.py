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

_HALVES = frozenset({"BFloat16", "Float16"})
_SHORT_ROW = 512  # SMALL_DIM_THRESHOLD
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
    """Of an embedding, or what is added to picked rows: table and gradient in 32 bits, the index sorted. Short rows of
    16 bits are summed up in a table of 32 bits beside that of 16 (embedding_dense_grad_v2_tiling.cpp:249)."""
    large = arrays(inputs)
    table = max(map(elements, outputs), default=0)
    index = max((elements(tensor) for tensor in large if _is_whole(tensor)), default=0)
    rows = [tensor for tensor in large if not _is_whole(tensor)]
    source = max(map(elements, rows), default=0)
    is_short = any(tensor.shape[-1] <= _SHORT_ROW and item_bytes(tensor) < FLOAT_BYTES for tensor in rows)
    size = table * (FLOAT_BYTES + 2 * is_short)
    return pieces(SYSTEM_BYTES, size, source * FLOAT_BYTES, *[index * FLOAT_BYTES] * 4)


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
    """Places in 32 bits before they are in 64; of a few (below 8), 32 of each row are found first. Along another axis
    than the last all is transposed, and what was found is transposed back."""
    places = next((tensor for tensor in outputs if _is_whole(tensor)), None)
    if places is None:
        return pieces(*(elements(tensor) * FLOAT_BYTES for tensor in outputs[-1:]), 0, 0)
    count = elements(places)
    found = pieces(count * FLOAT_BYTES, 0, 0)
    table = arrays(inputs)[:1]
    if table and not _is_along_last(table[0], places) and len(table[0].shape) == len(places.shape):
        values = count * item_bytes(table[0])
        return found + pieces(size_bytes(table[0]), values, values, count * FLOAT_BYTES)
    k = places.shape[-1] if places.shape else 1
    if 0 < k < _FEW:
        first = max(count // k, 1) * _AT_ONCE
        found += pieces(SYSTEM_BYTES, first * 8, first * FLOAT_BYTES, count * FLOAT_BYTES)
    return found


def sum_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """What is summed is copied to the type of the result before, where it has another one, or to 32 bits."""
    large = arrays(inputs)
    if not large:
        return pieces(0, 0)
    result = outputs[0] if outputs else large[0]
    is_narrow = item_bytes(large[0]) < FLOAT_BYTES
    if large[0].dtype == result.dtype and not is_narrow:
        return pieces(0, 0)
    return pieces(0, 0, elements(large[0]) * max(item_bytes(result), FLOAT_BYTES * is_narrow))


def extreme_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """The place of each extreme in 32 bits; flags are copied to 32 bits before."""
    flags = [elements(tensor) * FLOAT_BYTES for tensor in arrays(inputs)[:1] if tensor.dtype == "Bool"]
    return pieces(*(elements(tensor) * FLOAT_BYTES for tensor in outputs[:1]), *flags)


def elementwise_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Nothing where all is of one type; else what is of another type is copied to that of the result."""
    return _promoted(arrays(inputs), frozenset())


def mixing_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """As element by element, of kernels that take floats of 16 beside such of 32 bits as they are."""
    return _promoted(arrays(inputs), _HALVES)


def picking_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """As element by element, of two behind a condition, which stays as it is."""
    return _promoted([tensor for tensor in arrays(inputs) if tensor.dtype != "Bool"], frozenset())


def _promoted(numbers: Tensors, kept: frozenset[str]) -> int:
    """Copies to one type. ``kept``: types that stay beside Float32."""
    types = {tensor.dtype for tensor in numbers}
    if len(types) < 2:
        return 0
    common, size = _common(numbers)
    stays = {common, *kept} if common in types and common == "Float32" else {common}
    copies = [elements(tensor) * size for tensor in numbers if tensor.dtype not in stays]
    return pieces(*copies) if copies else 0


def _common(numbers: Tensors) -> tuple[str, int]:
    """(type, bytes of an element): the widest float, or the widest integer where there is no float; of two that are as
    wide, 32 bits."""
    told = [tensor for tensor in numbers if not _is_whole(tensor)] or numbers
    size = max(map(item_bytes, told))
    widest = {tensor.dtype for tensor in told if item_bytes(tensor) == size}
    return (widest.pop(), size) if len(widest) == 1 else ("Float32", max(size, FLOAT_BYTES))


def _is_whole(tensor: Tensor) -> bool:
    """Of integers or flags."""
    return "Int" in tensor.dtype or tensor.dtype == "Bool"


def _is_along_last(table: Tensor, index: Tensor) -> bool:
    return len(table.shape) == len(index.shape) and table.shape[:-1] == index.shape[:-1]
