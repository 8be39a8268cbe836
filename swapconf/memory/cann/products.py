"""PRODUCT -> WORKSPACE: MatMulV3, BatchMatMulV3 and grouped products of an Atlas A2.

Where the flags of a transpose are not told and several readings fit the shapes, the largest counts.
"""

from __future__ import annotations

from swapconf.memory.cann.card import SYSTEM_BYTES, Card, Tensors, arrays, item_bytes, up
from swapconf.memory.cann.product import Product, readings
from swapconf.memory.cann.split import LONG, partial_bytes
from swapconf.words.units import MIB

BASE_BYTES = 20 * MIB  # RPC_WORKSIZE, matmul_v3_common.h:67
_LONG_AXIS = 65535  # ND2NZ_ON_THE_FLY_LIMIT, matmul_v3_common.h:60
_READY_BYTES = frozenset({32, 64, 96, 128, 160, 192, 224, 256, 384})  # SUPPORT_ND2NZ_GM2L0
_MOST_BYTES = 2**31 - 1


def product_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    return max((_one(product, card) for product in readings(inputs, outputs)), default=BASE_BYTES)


def grouped_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """With weights of 8 or 4 bits what each template takes is not told by shapes: four results of a block a core."""
    is_quantized = any(item_bytes(tensor) < 2 for tensor in arrays(inputs)[:2])
    return SYSTEM_BYTES + is_quantized * 16 * 256 * 256 * card.cube_cores


def _one(product: Product, card: Card) -> int:
    if product.batch_b > 1 or product.batch_a > 1:
        return _batch(product, card)
    if _takes_rows(product) or _splits_anyway(product):
        return _kernel(product, card)
    return _blocked(product, card)


def _kernel(product: Product, card: Card) -> int:
    """MatMulV3 on matrices in rows."""
    if _aligns_result(product, card):
        return BASE_BYTES + _aligned_bytes(product, card)
    copies_b = _copies(product, product.inner_b, product.outer_b) or _collides(product, card)
    size = BASE_BYTES + partial_bytes(product, copies_b, card)
    if _copies(product, product.inner_a, product.outer_a):
        size += _copy_bytes(product.outer_a, product.inner_a, product.size)
    if copies_b:
        size += _copy_bytes(product.outer_b, product.inner_b, product.size)
    return size


def _blocked(product: Product, card: Card) -> int:
    """Both matrices are copied to blocks of 16 x 16 before; the result, too, where its kernel can't write rows."""
    copies = up(product.m, 16) * up(product.k, 16) + up(product.k, 16) * up(product.n, 16)
    writes_rows = card.cann != "8.5" and product.n % 256 == 0 and product.size == product.result_size
    result = 0 if writes_rows else up(product.m, 16) * up(product.n, 16) * product.result_size
    return BASE_BYTES + copies * product.size + result


def _takes_rows(product: Product) -> bool:
    """IsNdToNzOnTheFly; 32-bit matrices always are."""
    if product.size != 2 or product.k == 1:
        return True
    if max(product.inner_a * product.outer_a, product.inner_b * product.outer_b) <= _LONG_AXIS:
        return True
    if _shares_anyway(product):
        return True
    return all(
        128 <= axis <= _LONG_AXIS or (axis < 128 and axis % 16 == 0) for axis in (product.inner_a, product.inner_b)
    )


def _shares_anyway(product: Product) -> bool:
    """IsSplitKThenForbiddenNd2Nz; by 24 cores, of which half count."""
    rows = not product.transposed_a and product.transposed_b
    return product.k >= 15000 and (product.m // 128) * (product.n // 128) < 12 and not rows


def _splits_anyway(product: Product) -> bool:
    """CheckSupportSingleSplitKFp16Bf16: k is long, and at least twice as long as m and n."""
    whole = (product.m * product.k + product.k * product.n) * product.size
    is_small = product.is_aligned(product.k) or whole <= _MOST_BYTES
    return product.size == 2 and is_small and product.k >= max(LONG, 2 * product.m, 2 * product.n)


def _copies(product: Product, inner: int, outer: int) -> bool:
    """Whether a matrix is copied to blocks inside of the kernel: nd2nzA, nd2nzB and NeedNd2NzVnchw."""
    inner_bytes = inner * product.size
    if inner_bytes in _READY_BYTES:
        return False
    is_wide_float = product.size == 4 and inner < _LONG_AXIS
    if (not product.is_aligned(inner) or inner > _LONG_AXIS) and not is_wide_float:
        return True
    is_narrow = inner_bytes <= 192 or (inner_bytes <= 384 and inner % 2 == 0) or (inner_bytes <= 512 and inner % 4 == 0)
    return outer > 8192 and inner > 1 and is_narrow and not product.is_aligned(inner)


def _collides(product: Product, card: Card) -> bool:
    """Rows whose length makes cores hit the same bank, GetNd2nzA and GetNd2nzB."""
    if product.size != 2:
        return False
    if not product.transposed_b:
        is_tall = product.m > 4096 or (product.m == 4096 and card.cube_cores >= 24)
        return product.n % 16384 == 0 and is_tall and product.k >= 6656
    is_middle = product.k == 16384 and 4096 <= product.m <= 4480 and product.n >= 7168
    return not product.transposed_a and is_middle and card.cube_cores >= 24


def _copy_bytes(outer: int, inner: int, size: int) -> int:
    """CalcNd2nzWorkspace: 16 rows by 32 bytes."""
    return up(outer, 16) * up(inner, 32 // size) * size


def _aligns_result(product: Product, card: Card) -> bool:
    """NeedSolveFixBound: a short k and ragged rows of the result, of which there are very many."""
    line = 256 // product.result_size
    is_ragged = product.n < 256 and product.n % line != 0 and line % product.n != 0
    is_tiny = max(product.n, product.k) < 32 // product.size
    if not (is_ragged and product.k <= 256 and product.m >= card.cube_cores * 512) or is_tiny:
        return False
    is_even = product.is_aligned(product.k) or product.k < 256 // product.size
    return product.result_size != 2 or (is_even and not product.transposed_a)


def _aligned_bytes(product: Product, card: Card) -> int:
    """BASE_ENABLE_ALIGNOUT of GetWorkspaceSize: two rows of blocks for each core; of 32-bit results the copy of A is
    left as it was."""
    rows = min(131072 // (up(product.n, 16) * 4), 196352 // 256 // product.result_size) // 128 * 128
    size = up(product.n, 512 // product.result_size) * rows * card.cube_cores * 2 * product.result_size
    if product.result_size != 2 and _copies(product, product.inner_a, product.outer_a):
        size += _copy_bytes(product.outer_a, product.inner_a, product.size)
    return size


def _batch(product: Product, card: Card) -> int:
    """BatchMatMulV3 asks for what one of its products asks for, and for copies of all matrices with short ragged rows
    where a core takes several products at once; those by at most a cache full."""
    size = _kernel(product, card)
    if product.batch_a != product.batch_b or product.batch_a < 2 * card.cube_cores:
        return size
    copied = sum(
        batch * _copy_bytes(outer, inner, product.size)
        for batch, outer, inner in (
            (product.batch_a, product.outer_a, product.inner_a),
            (product.batch_b, product.outer_b, product.inner_b),
        )
        if _is_ragged(product, inner, outer)
    )
    return max(size, BASE_BYTES + copied)


def _is_ragged(product: Product, inner: int, outer: int) -> bool:
    """UpdateMultiBatchNd2nz."""
    inner_bytes = inner * product.size
    if product.is_aligned(inner) or inner_bytes in _READY_BYTES - {32} or outer <= 4 or inner <= 1:
        return False
    return inner_bytes <= 192 or (inner_bytes <= 384 and inner % 2 == 0) or (inner_bytes <= 512 and inner % 4 == 0)
