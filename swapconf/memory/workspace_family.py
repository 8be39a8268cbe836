"""FAMILY: kernels whose workspace follows one rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swapconf.memory.cann.card import Card, Tensors
from swapconf.trace.workspace import Rule


@dataclass(frozen=True, slots=True)
class Family:
    """A rule, the primitives that it is for, and how the size follows; none of its primitives where it is for all that
    no other family has."""

    rule: Rule
    primitives: frozenset[str]
    formula: Callable[[Tensors, Tensors, Card], int]
