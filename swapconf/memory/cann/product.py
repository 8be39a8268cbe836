"""PRODUCT: how a product of two matrices can be read from the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from swapconf.memory.cann.card import Tensors, arrays, item_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """[m, k] x [k, n]. ``transposed_a``: A lies there as [k, m]; ``transposed_b``: B as [n, k]. ``batch_a``,
    ``batch_b``: how many matrices. Sizes: bytes of an element."""

    m: int
    k: int
    n: int
    transposed_a: bool
    transposed_b: bool
    size: int
    result_size: int
    batch_a: int = 1
    batch_b: int = 1

    @property
    def inner_a(self) -> int:
        """The axis whose elements lie side by side."""
        return self.m if self.transposed_a else self.k

    @property
    def inner_b(self) -> int:
        return self.k if self.transposed_b else self.n

    @property
    def outer_a(self) -> int:
        return self.k if self.transposed_a else self.m

    @property
    def outer_b(self) -> int:
        return self.n if self.transposed_b else self.k

    def is_aligned(self, axis: int) -> bool:
        return axis * self.size % 256 == 0


def readings(inputs: Tensors, outputs: Tensors) -> list[Product]:
    """Every way to read the shapes, the flags being unknown: one, and two or four where axes are equally long. None
    where the shapes tell no product. Leading axes of A belong to m where B has none."""
    large = [tensor for tensor in arrays(inputs) if len(tensor.shape) > 1][:2]
    if len(large) < 2 or not outputs or len(outputs[0].shape) < 2:
        return []
    a, b, c = large[0].shape, large[1].shape, outputs[0].shape
    if min((*a, *b, *c)) <= 0:
        return []
    is_batch = len(b) > 2
    is_folded = not is_batch and len(a) > 2
    if is_folded:
        a, c = (prod(a[:-1]), a[-1]), (prod(c[:-1]), c[-1])
    return [
        Product(
            m=m,
            k=k,
            n=n,
            transposed_a=left,
            transposed_b=right,
            size=item_bytes(large[0]),
            result_size=item_bytes(outputs[0]),
            batch_a=prod(a[:-2]),
            batch_b=prod(b[:-2]),
        )
        for left, m, k in _sides(a)[: 1 if is_folded else 2]
        for right, n, other in _sides((*b[:-2], b[-1], b[-2]))
        if (m, n) == (c[-2], c[-1]) and k == other
    ]


def _sides(shape: Sequence[int]) -> list[tuple[bool, int, int]]:
    """(is transposed, free axis, summed axis), both ways."""
    return [(False, shape[-2], shape[-1]), (True, shape[-1], shape[-2])]
