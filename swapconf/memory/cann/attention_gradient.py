"""GRADIENT OF FLASH ATTENTION -> WORKSPACE: by the template that an Atlas A2 takes.

ops-transformer/attention/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling_*.cpp; templates are
asked in the order of the last number of REGISTER_TILING_TEMPLATE. Not told by shapes: whether sums are computed in a
fixed order (`Card.deterministic`).
"""

from __future__ import annotations

from dataclasses import replace

from swapconf.memory.cann.attention import is_moved, mask_bytes
from swapconf.memory.cann.card import FLOAT_BYTES, Card, Tensors, elements, up
from swapconf.memory.cann.heads import Heads, heads
from swapconf.words.units import MIB

_BUFFER_BYTES = 20 * MIB  # WORKSPACE_BUFFER
_SHORT = 1024
_BLOCK = 512  # SAMEAB_S1_BASE, SAMEAB_S2_BASE
_GRAIN = 512  # GM_ALIGN


def gradient_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    if card.deterministic is None:
        known = (replace(card, deterministic=order) for order in (False, True))
        return max(gradient_bytes(inputs, outputs, either) for either in known)
    told = heads(inputs, outputs)
    if told is None:
        return _untold(inputs, card)
    return _template(_as_copied(told, card), mask_bytes(told, inputs), card) + _copies(told, card)


def _as_copied(told: Heads, card: Card) -> Heads:
    """With the widths that the kernel gets."""
    width = told.width if told.is_packed else told.padded_width
    is_wide = told.value_width == told.width or _widens(told, card)
    return replace(told, width=width, value_width=width if is_wide else told.value_width)


def _template(told: Heads, dropped: int, card: Card) -> int:
    if told.size == FLOAT_BYTES:
        return _base(told, dropped, card)
    if told.is_packed:
        return max(_base(told, dropped, card), _shared_block(told, dropped, card), _latent(told, card))
    if max(told.queries, told.keys) < _SHORT:
        return max(_short(told, card) + up(dropped, _GRAIN), _shared_block(told, dropped, card))
    return _shared_block(told, dropped, card)


def _laid(offset: int, *sizes: int) -> int:
    """One behind the other, each rounded up to 512 bytes and 512 more where it is so already."""
    for size in sizes:
        offset = (offset + size + _GRAIN) // _GRAIN * _GRAIN
    return offset


def _shared_block(told: Heads, dropped: int, card: Card) -> int:
    """SameAB, _sab.cpp:1418: three sums in 32 bits, a row of statistics, two blocks of scores for each vector core (of
    fewer than 2,048 keys without a mask the blocks may be smaller)."""
    statistics = told.batch * told.heads * told.queries * 8 * FLOAT_BYTES
    scores = card.vector_cores * _BLOCK * _BLOCK * FLOAT_BYTES * 2
    size = _laid(64 * 1024, *_sums(told), *[dropped] * bool(dropped)) + up(statistics, _GRAIN)
    size = _laid(size, scores) + _BUFFER_BYTES
    if not card.deterministic:
        return size
    widths = 2 * up(told.width, 16) + up(told.value_width, 16)
    return size + _BLOCK * widths * FLOAT_BYTES * card.cube_cores * 2


def _base(told: Heads, dropped: int, card: Card) -> int:
    """Bn2gs1s2, which can do everything, _bn2gs1s2.cpp:1374: blocks of 128 x 64, and 8 of them, of heads of 64 twice as
    many; the same where the queries of packed sequences are many and their keys few."""
    ratio = 16 if told.width == 64 or told.is_packed else 8
    scores = card.vector_cores * ratio * 128 * 64
    parts = (scores * 2 * FLOAT_BYTES, scores * 2 * told.size, scores * 2 * told.size)
    return _laid(16 * 1024, *_sums(told), *[dropped] * bool(dropped), *parts) + _BUFFER_BYTES


def _short(told: Heads, card: Card) -> int:
    """S1s2Bn2, _s1s2_bn2.cpp:1533: a core takes 131,072 scores at most, DecideBaseMND :1019."""
    scores = 131072 * (2 * FLOAT_BYTES + 4 * told.size) * card.vector_cores
    return 32 * MIB + sum(_sums(told)) + scores


def _latent(told: Heads, card: Card) -> int:
    """Mla, _basic.cpp:299, of packed sequences only."""
    statistics = told.heads * told.queries * 8 * FLOAT_BYTES
    sums = (told.query_elements * FLOAT_BYTES, *[told.key_elements * FLOAT_BYTES] * 2)
    scores = 2 * card.cube_cores * 16 * 128 * 128 * FLOAT_BYTES
    return _laid(16 * MIB, *sums, statistics, scores, scores) + 16 * MIB


def _sums(told: Heads) -> tuple[int, int, int]:
    return told.query_elements * FLOAT_BYTES, told.key_elements * FLOAT_BYTES, told.value_elements * FLOAT_BYTES


def _widens(told: Heads, card: Card) -> bool:
    """Whether a value that is narrower than the key is copied to its width."""
    is_latent = (told.width, told.value_width) == (192, 128) and not card.deterministic
    return told.width != told.value_width and not is_latent


def _copies(told: Heads, card: Card) -> int:
    """What aclnn copies before and after (aclnn_flash_attention_score_grad.cpp:352-410): five inputs and three results
    of another width of head or of a layout whose rows lie too far apart; where the value is narrower than the key, the
    value, two inputs of its width and its gradient. Where sums have no fixed order, a value of 128 with a key of 192 is
    done as it is."""
    tokens, other = told.batch * told.heads * told.queries, told.batch * told.key_heads * told.keys
    width = told.padded_width
    widens = _widens(told, card)
    pads = width != told.width and not told.is_packed
    times = int(pads) + int(is_moved(told, width))
    return ((4 * tokens + 4 * other) * times + (2 * tokens + 2 * other) * widens) * width * told.size


def _untold(inputs: Tensors, card: Card) -> int:
    """The shapes do not tell the heads: sums of the first three tensors, blocks of the largest template."""
    sums = sum(map(elements, inputs[:3])) * FLOAT_BYTES
    extra = _BLOCK * 3 * 256 * FLOAT_BYTES * card.cube_cores * 2 if card.deterministic else 0
    return 64 * 1024 + sums + 2 * card.vector_cores * _BLOCK * _BLOCK * FLOAT_BYTES + _BUFFER_BYTES + extra + 16 * MIB
