"""SEVERAL KERNELS IN ONE -> WORKSPACE: experts with what they send, and products with what they gather or scatter.

Source of the last two: cann/ops-transformer at 3a280bc (2026-07-21). A product that communicates keeps the weight in
blocks, and what it gathers, or what is still to be scattered. Whether the gathered rows are handed out instead, the
shapes do not tell; they count.
"""

from __future__ import annotations

from swapconf.memory.cann.card import FLOAT_BYTES, SYSTEM_BYTES, Card, Tensors, arrays, elements, item_bytes, up
from swapconf.words.units import MIB

# of a kernel of hyper-parallel, whatever its shapes: hyper_mega_moe_tiling.cpp, hyper_mega_moe_grad_tiling.cpp
MEGA_BYTES, MEGA_GRADIENT_BYTES = 95_420_928, 99_615_232
_USER_BYTES = MIB  # USER_WORKSPACE_A2
_MOST_EXPERTS = 512  # MAX_MOE_EXPERT_NUMS_A2
_BLOCK_BYTES, _GRAIN_BYTES, _BIAS_GRAIN = 256, 512, 256


def mega_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    return MEGA_BYTES


def mega_gradient_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    return MEGA_GRADIENT_BYTES


def dispatch_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    return SYSTEM_BYTES + _USER_BYTES


def combine_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Two words for each expert of all cards, which shapes do not tell: as many as may be."""
    return SYSTEM_BYTES + 2 * FLOAT_BYTES * _MOST_EXPERTS


def gather_product_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """[rows, k] of each card, gathered, x [k, n]."""
    large, result = arrays(inputs), arrays(outputs)
    if len(large) < 2 or not result or not elements(large[0]):
        return SYSTEM_BYTES
    rows, k = large[0].shape[0], large[0].shape[-1]
    cards = max(result[0].shape[0] // rows, 1)
    gathered = up(elements(large[0]) * item_bytes(large[0]), _GRAIN_BYTES) * cards
    return SYSTEM_BYTES + gathered + _beside(k, result[0].shape[-1], item_bytes(large[0]))


def scatter_product_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """[rows, k] x [k, n], whole before its sums are scattered."""
    large, result = arrays(inputs), arrays(outputs)
    if len(large) < 2 or not result or not elements(large[0]):
        return SYSTEM_BYTES
    (rows, k), n = (large[0].shape[0], large[0].shape[-1]), result[0].shape[-1]
    whole = up(rows * n * item_bytes(result[0]), _GRAIN_BYTES)
    return SYSTEM_BYTES + whole + _beside(k, n, item_bytes(large[0]))


def _beside(k: int, n: int, size: int) -> int:
    """The weight in blocks of 256 bytes, and a bias in 32 bits, which may be there."""
    block = _BLOCK_BYTES // size
    return up(k, block) * up(n, block) * size + up(n, _BIAS_GRAIN) * FLOAT_BYTES
