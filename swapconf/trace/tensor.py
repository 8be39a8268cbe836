"""TENSOR: type and shape of what a kernel reads or makes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

_BITS = re.compile(r"(?:B?Float|HiFloat|U?Int|Complex)(\d+)")


@dataclass(frozen=True, slots=True)
class Tensor:
    """Type and shape as the tracker prints them: ``BFloat16``, (4096, 512)."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int | None:
        """None where the type or a dimension is not known."""
        bits = element_bits(self.dtype)
        return None if bits is None or any(size < 0 for size in self.shape) else -(-prod(self.shape) * bits // 8)


def element_bits(dtype: str) -> int | None:
    """Bits of one element: 16 for ``BFloat16``; nothing for a string, which stays on the host."""
    fixed = {"Bool": 8, "String": 0}
    known = _BITS.match(dtype)
    return fixed.get(dtype, int(known[1]) if known else None)
