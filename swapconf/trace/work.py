"""SIGNATURE -> WORK: what a kernel has to do, from its primitive and the shapes and types of its tensors.

- a product of matrices: 2 M N K operations. M and N are the last dimensions of the result; K follows from the number
  of elements of the three matrices, whatever is transposed: sqrt(|A| |B| / |C|) of one matrix each.
- grouped products: 2 |x| N, because every row of x meets one group only.
- flash attention: two products forward, five backward (the scores again, then four gradients); with a causal mask only
  what lies on or below the diagonal.
- a view does nothing. Anything else reads and writes its tensors, and does one operation per element. What fills reads
  nothing, what takes a part of its first input reads as much as it writes, and what assigns does not read its target.
- a collective sends, per card: (n-1)/n of the whole to gather, scatter or exchange, twice that to reduce to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

from swapconf.trace.trace import Tensor, element_bits
from swapconf.upstream.primitives import COPY as COPY
from swapconf.upstream.primitives import HOST_COPIES as HOST_COPIES
from swapconf.upstream.primitives import VIEWS as VIEWS

MATRIX = frozenset({"BatchMatMul", "BatchMatMulExt", "Dense", "MatMul", "MatMulExt", "Matmul", "Mm", "Bmm"})
GROUPED = frozenset({"GroupedMatmul", "GroupedMatmulV2", "GroupedMatmulV4"})
FLASH, FLASH_GRAD = "FlashAttentionScore", "FlashAttentionScoreGrad"
REDUCING = frozenset({"AllReduce"})
PARTLY = frozenset(
    {
        "AllGather",
        "AllGatherV",
        "AlltoAll",
        "AlltoAllV",
        "CollectiveGather",
        "CollectiveScatter",
        "NeighborExchange",
        "NeighborExchangeV2",
        "ReduceScatter",
        "ReduceScatterV",
    }
)
WHOLE = frozenset({"Broadcast", "Receive", "Reduce", "Send"})
FILLING = frozenset({"Fill", "FillScalar", "FillV2", "MemSet", "OnesLike", "ZerosLike", "OnesLikeExt", "ZerosLikeExt"})
TAKING = frozenset(
    {
        "AsStrided",
        "Embedding",
        "Gather",
        "GatherD",
        "GatherElements",
        "GatherV2",
        "GatherV3",
        "Index",
        "IndexSelect",
        "Slice",
        "SliceExt",
        "StridedSlice",
        "StridedSliceD",
    }
)
ASSIGNING = frozenset({"Assign", "InplaceCopy"})
COLLECTIVES = REDUCING | PARTLY | WHOLE | {"Barrier"}
COMMUNICATING = ("DistComm", "InnerComm")  # how the collectives of mint.distributed are called
# FASInputLayoutMode of MindSpore's op_enum.h (2.9.0): BSH, BNSD, SBH, BSND, TND
_SEQUENCE_AXIS = {0: 1, 1: 2, 2: 0, 3: 1, 4: 0}

_COMPRESSED_MASK = (2048, 2048)


@dataclass(frozen=True, slots=True)
class Attention:
    """How flash attention was called. ``layout``: FASInputLayoutMode."""

    layout: int
    is_causal: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """``matrix_ops``: of the matrix unit, ``wide_matrix_ops``: the same on 32-bit floats. ``memory_bytes``: of device
    memory. ``copied_bytes``: between device and host."""

    matrix_ops: float = 0.0
    wide_matrix_ops: float = 0.0
    vector_ops: float = 0.0
    memory_bytes: float = 0.0
    copied_bytes: float = 0.0


def work(
    primitive: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], attention: Attention | None = None
) -> Work:
    """Sizes that are not known before it runs count as nothing, and so does what is sent: see `timing.collectives`."""
    if primitive in VIEWS or primitive in COLLECTIVES:
        return Work()
    if primitive in HOST_COPIES:
        return Work(copied_bytes=max(tensor.size_bytes or 0 for tensor in (*inputs, *outputs)))
    product = _matrix_ops(primitive, inputs, outputs, attention)
    is_wide = bool(product) and element_bits(inputs[0].dtype) == 32
    return Work(
        matrix_ops=0.0 if is_wide else product,
        wide_matrix_ops=product if is_wide else 0.0,
        memory_bytes=_read_bytes(primitive, inputs, outputs) + size_bytes(outputs),
        vector_ops=max(sum(map(_elements, inputs)), sum(map(_elements, outputs))),
    )


def attention_of(primitive: str, inputs: Sequence[Tensor]) -> Attention | None:
    """As far as shapes tell: three axes are B, S, H or S, B, H, of which the sequence is the longer; a mask of 2048
    squared is the one that compressed causal modes take."""
    if primitive not in (FLASH, FLASH_GRAD) or not inputs:
        return None
    shape = inputs[0].shape
    causal = any(tensor.shape == _COMPRESSED_MASK for tensor in inputs)
    if len(shape) == 3:
        return Attention(layout=0 if shape[1] >= shape[0] else 2, is_causal=causal)
    return Attention(layout=1, is_causal=causal)


def size_bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.size_bytes or 0 for tensor in tensors)


def _read_bytes(primitive: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """What a kernel reads of its inputs."""
    if primitive in FILLING:
        return 0
    first, rest = size_bytes(inputs[:1]), size_bytes(inputs[1:])
    if primitive in TAKING:
        return min(first, size_bytes(outputs)) + rest
    return rest if primitive in ASSIGNING else first + rest


def _matrix_ops(
    primitive: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], attention: Attention | None
) -> float:
    large = [tensor for tensor in inputs if _elements(tensor) > 0 and len(tensor.shape) > 1]
    if not outputs or len(large) < 2:
        return 0.0
    if primitive in MATRIX:
        return _product(large[0], large[1], outputs[0])
    if primitive in GROUPED:
        return 2.0 * _elements(large[0]) * outputs[0].shape[-1] if outputs[0].shape else 0.0
    if primitive in (FLASH, FLASH_GRAD):
        return _attention(primitive, inputs, outputs, attention or Attention(layout=1, is_causal=False))
    return 0.0


def _product(left: Tensor, right: Tensor, result: Tensor) -> float:
    if len(result.shape) < 2:
        return 2.0 * min(_elements(left), _elements(right))
    one = result.shape[-1] * result.shape[-2]
    inner = sqrt(left.shape[-1] * left.shape[-2] * right.shape[-1] * right.shape[-2] / one) if one > 0 else 0.0
    return 2.0 * _elements(result) * inner


def _attention(primitive: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], call: Attention) -> float:
    """2 |q| S of each product with the width of q and k, 2 |out| S with the width of v."""
    query, key = inputs[0], inputs[1]
    axis = _SEQUENCE_AXIS.get(call.layout, 2)
    if axis >= min(len(query.shape), len(key.shape)):
        return 0.0
    own, others = query.shape[axis], key.shape[axis]
    if own <= 0 or others <= 0:
        return 0.0
    forward = primitive == FLASH
    result = outputs[-1] if forward else inputs[3]
    wide, narrow = (1, 1) if forward else (3, 2)
    seen = (others + 1) / (2 * others) if call.is_causal and own == others else 1.0
    return 2.0 * others * seen * (wide * _elements(query) + narrow * _elements(result))


def _elements(tensor: Tensor) -> int:
    return max(prod(tensor.shape), 0) if -1 not in tensor.shape else 0
