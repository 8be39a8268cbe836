"""CARD and CANN: what the tilings know besides shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from swapconf.trace.trace import Tensor, element_bits
from swapconf.upstream.cann import CANN_VERSIONS
from swapconf.words.units import MIB

Tensors = Sequence[Tensor]
SYSTEM_BYTES = 16 * MIB  # WORKSPACE_SIZE_910B of platform_ascendc, GetLibApiWorkSpaceSize
FLOAT_BYTES = 4
_GRAIN_BYTES, _TAIL_BYTES = 512, 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """An Atlas A2. ``cann``: the oldest release of `CANN_VERSIONS` whose rules hold: 9.0 stands for 9.0 to 9.2.
    ``cube_cores``: 24 of a 910B1 and B2, 20 of a B3 and B4; there are twice as many vector cores. ``deterministic``:
    whether sums are computed in a fixed order; None where nobody says, and then the larger need counts."""

    cann: str = CANN_VERSIONS[-1]
    cube_cores: int = 24
    deterministic: bool | None = None
    cache_bytes: int = 192 * MIB

    def __post_init__(self) -> None:
        if self.cann not in CANN_VERSIONS:
            raise ValueError(f"no rules for CANN {self.cann}: there are {', '.join(CANN_VERSIONS)}")

    @property
    def vector_cores(self) -> int:
        return 2 * self.cube_cores


A2 = Card()


def elements(tensor: Tensor) -> int:
    """How many; 0 where a dimension is not known."""
    return prod(tensor.shape) if min(tensor.shape, default=0) >= 0 else 0


def size_bytes(tensor: Tensor) -> int:
    return elements(tensor) * item_bytes(tensor)


def item_bytes(tensor: Tensor) -> int:
    """Of one element; 4 where the type is not known."""
    bits = element_bits(tensor.dtype)
    return FLOAT_BYTES if bits is None else bits // 8


def arrays(tensors: Tensors) -> list[Tensor]:
    """Without scalars, and without what is written as one: axes, flags."""
    return [tensor for tensor in tensors if tensor.shape]


def up(value: int, step: int) -> int:
    """The next multiple of ``step``."""
    return -(-value // step) * step


def ceil_div(value: int, by: int) -> int:
    return -(-value // by)


def pieces(*sizes: int) -> int:
    """What aclnn asks for when it needs several tensors in between: each has a tail and is rounded up, as a block of a
    pool is. The tail, and how many pieces are next to nothing (told as 0), are read off measurements, not off code."""
    return sum(up(size + _TAIL_BYTES, _GRAIN_BYTES) for size in sizes)
