"""PRODUCT -> SPLIT: whether MatMulV3 sums over k in parts, and what the partial sums take.

Two templates write 32-bit partial sums to workspace: one core that takes k in parts (m x n of them in all), and cores
that share k. Which is taken follows from shapes, the number of cores and the size of the cache:
ops-nn/matmul/mat_mul_v3/op_host/op_tiling/matmul_v3_base_tiling.cpp, DoSelectTiling :1406.
"""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.memory.cann.card import FLOAT_BYTES, Card, ceil_div, up
from swapconf.memory.cann.product import Product
from swapconf.memory.cann.tuned import tuned_bytes
from swapconf.words.units import MIB

LONG = 27392  # SPLIT_K_THRES, matmul_v3_common.h:59
_BLOCK = 128
_CACHED_BYTES = 100 * MIB  # of a cache of 192 MiB
_TILE = 3072


@dataclass(frozen=True, slots=True)
class _Tile:
    """What one core computes."""

    m: int
    n: int


def partial_bytes(product: Product, copies_b: bool, card: Card) -> int:
    """Bytes of partial sums; 0 where k is not split. Which shapes are tuned is known of one release, so that the larger
    need counts."""
    return max(_by_rule(product, copies_b, card), tuned_bytes(product, card))


def _by_rule(product: Product, copies_b: bool, card: Card) -> int:
    if _wants_parts(product, copies_b, card) and _is_balanced(product, _tile(product, card), card):
        return product.m * up(product.n, 256 // product.size) * FLOAT_BYTES
    return _shared_bytes(product, card) if _is_shared(product, card) else 0


def _wants_parts(product: Product, copies_b: bool, card: Card) -> bool:
    """IsSupportSingleCoreSplitK, :2324."""
    if product.k >= LONG or _is_short(product, card) or _collides(product, copies_b, card):
        return True
    m, k, n = product.m, product.k, product.n
    is_large = m * k >= 5 * 384 * 384 and n >= 1024 and min(m, k) >= 384 and m * n >= 1024 * 384 * card.cube_cores
    return is_large and not _fits_cache(product, card)


def _collides(product: Product, copies_b: bool, card: Card) -> bool:
    """Rows whose length makes cores hit the same bank, or pages that miss."""
    m, k, n = product.m, product.k, product.n
    if product.transposed_a and not product.transposed_b:
        is_long = product.is_aligned(n) and k >= 11000
        return is_long and ((m % 8192 == 0 and n >= 6144) or (n % 8192 == 0 and m >= 6144))
    if product.transposed_a or not product.transposed_b:
        return False
    is_middle = 1280 <= m <= 8192 and 1280 <= n <= 8192
    return k % 16384 == 0 and is_middle and product.size == 2 and card.cube_cores == 24 and not copies_b


def _is_short(product: Product, card: Card) -> bool:
    """k of 1,536 with one side of 384 and a very long other one, :2301."""
    m, n = product.m, product.n
    return (
        product.k == 1536
        and m % _BLOCK == 0
        and n % _BLOCK == 0
        and ((n >= 49152 and m == 384) or (m >= 49152 and n == 384))
        and m * n <= int(card.cache_bytes * 0.65) // FLOAT_BYTES
    )


def _fits_cache(product: Product, card: Card) -> bool:
    """Whether some tile of the result, with what it is computed from, fits the cache; CalcTile :1776."""
    m, k, n, size = product.m, product.k, product.n, product.size
    allowed = _CACHED_BYTES * card.cache_bytes // (192 * MIB)
    if (m * k + k * n) * size + m * n * product.result_size <= allowed:
        return True
    most, fewest = (5, 4) if card.cube_cores == 20 else (6, 3)
    base_m, base_n = _base(product, card)
    is_wide = base_n >= base_m
    outer, inner = ((base_n, n), (base_m, m)) if is_wide else ((base_m, m), (base_n, n))
    conflict = fewest if (product.transposed_a if is_wide else not product.transposed_b) else most
    for use_outer in range(card.cube_cores, card.cube_cores // most - 1, -1):
        for use_inner in range(card.cube_cores, card.cube_cores // conflict - 1, -1):
            long, short = _cut(*outer, use_outer), _cut(*inner, use_inner)
            needed = (long * k + k * short) * size + long * short * product.result_size
            tails = _tail(*outer, long) * most >= card.cube_cores and _tail(*inner, short) * conflict >= card.cube_cores
            if needed <= allowed and tails:
                return True
    return False


def _cut(base: int, length: int, uses: int) -> int:
    return up(ceil_div(length, max(length // (base * uses), 1)), base)


def _tail(base: int, length: int, cut: int) -> int:
    return ceil_div((length + cut - 1) % cut + 1, base)


def _base(product: Product, card: Card) -> tuple[int, int]:
    """Rows and columns of a block, SetBaseBlockTiling."""
    wide, tall = (128, 256), (256, 128)
    if product.transposed_a == product.transposed_b:
        return tall if product.transposed_a else wide
    m, n = product.m, product.n
    large = (card.cube_cores >> 1) * 256
    if m >= large and n >= large:
        by_tall = ceil_div(m, 256) * n + ceil_div(n, 128) * m
        return tall if by_tall < ceil_div(m, 128) * n + ceil_div(n, 256) * m else wide
    if m < large and n < large:
        return tall if m > n else wide
    return tall if m >= large else wide


def _tile(product: Product, card: Card) -> _Tile:
    """DoSingleCoreSplitKTiling, :2465."""
    m, n, cores = product.m, product.n, card.cube_cores
    align_m = (256 if product.transposed_a else 32) // product.size
    align_n = 256 // product.size
    tiles_n = ceil_div(n, _TILE)
    step_m = 2 if ceil_div(m, 3 * _BLOCK) * tiles_n < cores else 3
    tiles_m = ceil_div(m, (1 if min(m, n) < 384 else step_m) * _BLOCK)
    tiles_n = _factor(tiles_n, cores)
    if tiles_m * tiles_n >= cores:
        tile = _Tile(
            min(up(ceil_div(m, max(cores // tiles_n, 1)), align_m), m), min(up(ceil_div(n, tiles_n), align_n), n)
        )
        if ceil_div(m, tile.m) * ceil_div(n, tile.n) >= cores:
            return tile
    return _most_cores(product, max(cores // tiles_m, 1), align_m, align_n, card)


def _most_cores(product: Product, tiles_n: int, align_m: int, align_n: int, card: Card) -> _Tile:
    m, n, cores = product.m, product.n, card.cube_cores
    found, used, width = _Tile(m, n), 0, n
    while tiles_n <= cores and used < cores and width >= 1024:
        tiles_n = _factor(tiles_n, cores)
        width = up(ceil_div(n, tiles_n), align_n)
        height = up(ceil_div(m, cores // tiles_n), align_m)
        count = ceil_div(m, height) * ceil_div(n, width)
        if count > used:
            found, used = _Tile(min(height, m), min(width, n)), count
        tiles_n += 1
    return found


def _factor(tiles: int, cores: int) -> int:
    """The next divisor of the number of cores, or a multiple of it; CalTileFactor :2154."""
    if tiles <= cores:
        return next(size for size in range(tiles, cores + 1) if cores % size == 0)
    whole, rest = divmod(tiles, cores)
    return (whole + (rest > cores // 2)) * cores


def _is_balanced(product: Product, tile: _Tile, card: Card) -> bool:
    """CheckSingleCoreSplitKEdgeCases, :2438; not asked of the very narrow ones."""
    is_narrow = product.size == FLOAT_BYTES and product.n <= 64 and product.m >= 1920 and not product.transposed_a
    if _is_short(product, card) or (is_narrow and product.transposed_b and LONG <= product.k < 65535):
        return True
    ratio = product.m * product.n / (tile.n * tile.m * card.cube_cores)
    if tile.n < 512 or ratio < 0.7:
        return False
    prefers_sharing = product.is_aligned(product.n) and 896 <= product.n <= 2048
    return not (prefers_sharing and (tile.n <= 640 or ratio < 0.85))


def _is_shared(product: Product, card: Card) -> bool:
    """SupportMultiSplitK, :2536."""
    m, k, n, cores = product.m, product.k, product.n, card.cube_cores
    blocks_m, blocks_n = ceil_div(m, _BLOCK), ceil_div(n, _BLOCK)
    rows = not product.transposed_a and product.transposed_b
    columns = product.transposed_a and not product.transposed_b
    if k >= cores * 384 and blocks_m * blocks_n < cores // 2 and not rows:
        return True
    if product.size == FLOAT_BYTES and max(m, n) <= 64 and k >= 6144:
        return True
    if 1000 <= k <= 4608 and max(m, n) <= 256 and columns:
        return True
    if k < LONG:
        return False
    is_bound = product.size == FLOAT_BYTES and not (
        product.is_aligned(product.inner_a) and product.is_aligned(product.inner_b)
    )
    blocks = blocks_m * blocks_n
    is_full = blocks / up(blocks, cores) > 0.8
    return not (min(blocks_m, blocks_n) >= 4 and not product.is_aligned(n) and not is_bound and is_full)


def _shared_bytes(product: Product, card: Card) -> int:
    """DoDeterministicMultiCoreSplitKTiling :2669, GetDeterministicSplitKWorkspaceSize :2812."""
    part_k = 3 * (256 // product.size)
    long = product.m if _goes_down(product) else product.n
    short = product.n if _goes_down(product) else product.m
    side = min(3 * _BLOCK, short)
    cached = (card.cache_bytes * 7 // 10 // card.cube_cores - part_k * side * product.size) // (
        part_k * product.size + side * FLOAT_BYTES
    )
    if long > cached:
        long = up(ceil_div(long, ceil_div(long, up(cached, _BLOCK))), _BLOCK)
    cores = min(ceil_div(product.k, part_k), card.cube_cores)
    partial = cores * 3 * _BLOCK * long * 2 * FLOAT_BYTES
    is_ragged = product.n > _BLOCK and product.m > _BLOCK and product.n % 16 != 0
    return partial + is_ragged * up(product.n, 16) * _BLOCK * cores * 2 * product.result_size


def _goes_down(product: Product) -> bool:
    """Whether m is the long side of what a core holds, IsNkOrder :2590."""
    m, n, size = product.m, product.n, product.size
    if m <= n or n * size % 32 or m < _BLOCK:
        return False
    if not product.is_aligned(m) and (product.is_aligned(n) or n * size <= 256):
        return False
    return not (m >= 2048 and n == 16)
