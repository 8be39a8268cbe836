"""FLASH ATTENTION -> WORKSPACE: by the template that an Atlas A2 takes.

ops-transformer/attention/flash_attention_score/op_host/flash_attention_score_tiling_general.cpp; the first template
that can do it is taken, :4428. A mask's kind (causal, band) is not told by shapes: where it matters, the largest need
counts.
"""

from __future__ import annotations

from swapconf.memory.cann.card import FLOAT_BYTES, SYSTEM_BYTES, Card, Tensors, arrays, ceil_div, elements, up
from swapconf.memory.cann.heads import Heads, heads

_LONG = 1024  # keys; s2sizeLimitMin
_MOST_STRIDE = 65535  # MAX_STRIDE_S1 of aclnn_flash_attention_score.cpp:34


def attention_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    told = heads(inputs, outputs)
    if told is None:
        return _untold(inputs, card)
    return _template(told, card) + _copies(told) + up(mask_bytes(told, inputs), 512)


def mask_bytes(told: Heads, inputs: Tensors) -> int:
    """A mask of dropout is told in bits, and unpacked to bytes where rows of it do not end with a byte, :1615."""
    scores = told.batch * told.heads * told.queries * told.keys
    has_mask = any(tensor.dtype == "UInt8" and elements(tensor) == ceil_div(scores, 8) for tensor in arrays(inputs))
    return scores if has_mask and (told.keys % 8 != 0 or told.is_packed) else 0


def _template(told: Heads, card: Card) -> int:
    if told.is_packed:
        return _packed(told, card)
    if _has_shared_block(told, card):
        return _shared_block(told, card)
    if told.keys > _LONG:
        return _long(told, card)
    if told.keys <= 128 and told.heads * up(told.queries, 16) * up(told.keys, 16) * told.size <= 64 * 1024 * 2:
        return max(_batchwise(told, card), _short(told, card))
    return _short(told, card)


def _has_shared_block(told: Heads, card: Card) -> bool:
    """Two vector cores on one block of a cube core: SameAB, :3495."""
    width, keys = told.padded_width, told.keys
    if told.size == FLOAT_BYTES:
        return False
    if (width % 16 != 0 or width == 96) and keys >= 512:
        return True
    if keys > _LONG and 128 < width < 196:
        return True
    return width == 64 and keys % 64 != 0 and 2048 < keys < 18432


def _shared_block(told: Heads, card: Card) -> int:
    """:3537. A block has 256 rows, or 384 where that makes fewer of them."""
    rows_all = up(told.queries, 16)
    is_best = (told.padded_width % 16 != 0 or told.padded_width == 96) and card.cube_cores >= 24
    rows = 384 if is_best and ceil_div(rows_all, 384) < ceil_div(rows_all, 256) else 256
    width = told.padded_width if _is_padded(told) and told.value_width == told.width else told.value_width
    return SYSTEM_BYTES + card.cube_cores * _core(told, min(rows, rows_all), 3, up(width, 16))


def _long(told: Heads, card: Card) -> int:
    """More than 1,024 keys: S1s2Bn2gs1, :3246."""
    rows_all = up(told.queries, 16)
    rows = min(64, rows_all)
    if told.batch * told.heads * ceil_div(told.queries, rows) > card.vector_cores:
        rows = min(128, rows_all)
    stages = 4 if told.size == FLOAT_BYTES else 3 if told.keys % 64 else 2
    return SYSTEM_BYTES + card.vector_cores * _core(told, rows, stages, up(told.padded_width, 16))


def _core(told: Heads, rows: int, stages: int, width: int) -> int:
    """Of one core: ``stages`` of scores, and four rows of the result, in 32 bits."""
    columns = min(128, up(told.keys, 16))
    return (stages * _blocks(told, columns) * rows * columns + 4 * rows * width) * FLOAT_BYTES


def _blocks(told: Heads, columns: int) -> int:
    """How many blocks of keys a core takes at once, CalcNRatio :3072."""
    most = 8
    if told.keys // columns == 8 and 0 < told.keys % columns <= 16:
        most = 5
    if told.width == 64 and 2049 <= told.keys <= 2304 and told.layout == "BNSD":
        most = 6
    return min(most, ceil_div(told.keys, columns))


def _short(told: Heads, card: Card) -> int:
    """Up to 1,024 keys: S1Bn2gs1, :2714. A core takes one to four blocks of 128 rows, fewer where the mask is sparse:
    the largest counts."""
    rows_all, columns = up(told.queries, 16), up(told.keys, 16)
    block = min(128, rows_all)
    found = 0
    for ratio in (1, 2, 3, 4):
        rows = block * ratio
        if ratio > 1 and (rows > rows_all or rows * columns > 131072):
            break
        scores = up(rows * columns, 256) * FLOAT_BYTES * 2
        result = up(rows * up(told.padded_width, 16), 256) * FLOAT_BYTES * 2
        cores = min(told.batch * told.heads * ceil_div(told.queries, rows) + 1, card.vector_cores)
        found = max(found, (scores + scores * told.size // FLOAT_BYTES + result) * cores)
    return SYSTEM_BYTES + found


def _batchwise(told: Heads, card: Card) -> int:
    """All heads of a sequence on one core: B, :3001."""
    rows = told.heads * told.queries
    scores = up(rows * up(told.keys, 16) * FLOAT_BYTES * told.size // 2, 512)
    result = up(rows * up(told.padded_width, 16) * FLOAT_BYTES, 512)
    return SYSTEM_BYTES + (scores + result) * 2 * min(told.batch, card.vector_cores)


def _packed(told: Heads, card: Card) -> int:
    """Sequences behind one another: VarLen, :3850. Their lengths are not told by shapes: 128 rows for each vector core,
    which is as much as 256 for each cube core."""
    stages = 5 if told.size == FLOAT_BYTES else 3
    columns = min(128, up(told.keys, 16))
    core = (stages * 8 * 128 * columns + 4 * 128 * up(told.width, 16)) * FLOAT_BYTES
    return SYSTEM_BYTES + card.vector_cores * core


def _copies(told: Heads) -> int:
    """What aclnn copies first: to a width that it can do, and out of layouts whose rows lie too far apart
    (aclnn_flash_attention_score.cpp:219-270, 462-512)."""
    pads = _is_padded(told) and not told.is_packed
    moves = is_moved(told, told.padded_width)
    if not pads and not moves:
        return 0
    width = told.padded_width if pads else told.width
    value = width if pads else told.value_width
    tokens, other = told.batch * told.heads * told.queries, told.batch * told.key_heads * told.keys
    once = (tokens * width + other * (width + value) + tokens * value) * told.size
    return once * (int(pads) + int(moves))


def _is_padded(told: Heads) -> bool:
    return told.padded_width != told.width or _widens_value(told)


def _widens_value(told: Heads) -> bool:
    return told.width != told.value_width and (told.width in (64, 80, 128) or told.keys <= _LONG)


def is_moved(told: Heads, width: int) -> bool:
    """Whether rows of queries lie too far apart for the kernel, and are brought together before."""
    row = told.heads * width
    return (told.layout in ("BSH", "BSND") and row > _MOST_STRIDE) or (
        told.layout == "SBH" and told.batch * row > _MOST_STRIDE
    )


def _untold(inputs: Tensors, card: Card) -> int:
    """The shapes do not tell the heads: three stages of the long template, with heads as wide as 128 or the last axis
    of four."""
    shape = inputs[0].shape if inputs else ()
    width = max(shape[-1], 128) if len(shape) == 4 else 128
    return SYSTEM_BYTES + card.vector_cores * FLOAT_BYTES * (3 * 8 * 128 * 128 + 4 * 128 * up(width, 16))
