"""PRODUCT -> SPLIT of tuned shapes: what MatMulV3 looks up before it asks its rules.

ops-nn/matmul/mat_mul_v3/op_host/config/ascend910b/Ascend910B*_AiCore_MatMulV3_runtime_kb.json, looked up by
GetTilingFromRepo, matmul_v3_base_tiling.cpp:959. Here are the shapes for which it takes more than the rules of `split`;
with a bias it is another table. Shapes are rounded up to 16, and BFloat16 counts as Float16.
"""

from __future__ import annotations

from collections.abc import Mapping

from swapconf.memory.cann.card import FLOAT_BYTES, Card, up
from swapconf.memory.cann.product import Product

_Shape = tuple[int, int, int, bool, bool, int]  # m, k, n, is A transposed, is B transposed, bytes of an element
_ROWS = 384  # singleCoreM of cores that share k
_RAGGED = frozenset({240, 20496, 26528})  # only if what is rounded up to these is no multiple of 16 itself


def _weights(*shapes: tuple[int, int, int]) -> frozenset[_Shape]:
    """Gradients of weights: both matrices have the tokens, k, in front."""
    return frozenset((m, k, n, True, False, 2) for m, k, n in shapes)


# by the number of cube cores: one core takes k in parts
_ALONE: Mapping[int, frozenset[_Shape]] = {
    24: _weights(
        (1536, 24576, 4096),
        (1536, 26528, 3072),
        (1536, 26528, 4608),
        (2560, 24576, 2560),
        (2560, 24576, 3456),
        (3072, 21600, 12288),
        (5120, 24576, 1792),
        (5120, 26624, 1280),
    )
    | {(240, 8192, 28672, False, True, 2)},
    20: _weights(
        (3072, 21600, 12288), (3200, 20496, 6400), (4992, 20496, 3200), (6400, 20496, 3200), (12288, 21600, 3072)
    )
    | {(240, 8192, 28672, False, True, 2)},
}
# cores that share k
_TOGETHER: Mapping[int, frozenset[_Shape]] = {
    24: _weights((768, 16384, 768), (8192, 32768, 1280)) | {(1024, 8192, 64, False, True, 4)},
    20: _weights((768, 16384, 768), (4608, 30720, 1152), (4608, 34816, 1152), (4608, 67584, 1152)),
}


def tuned_bytes(product: Product, card: Card) -> int:
    """Bytes of partial sums; 0 of a shape that is not tuned."""
    shape = (
        *map(_rounded, (product.m, product.k, product.n)),
        product.transposed_a,
        product.transposed_b,
        product.size,
    )
    if shape in _ALONE.get(card.cube_cores, ()):
        return product.m * up(product.n, 256 // product.size) * FLOAT_BYTES
    if shape in _TOGETHER.get(card.cube_cores, ()):
        return card.cube_cores * _ROWS * product.n * 2 * FLOAT_BYTES
    return 0


def _rounded(axis: int) -> int:
    rounded = up(axis, 16)
    return rounded if (rounded != axis) == (rounded in _RAGGED) else 0
