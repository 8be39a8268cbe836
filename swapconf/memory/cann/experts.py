"""MIXTURE OF EXPERTS -> WORKSPACE: sorting and moving tokens."""

from __future__ import annotations

from swapconf.memory.cann.card import FLOAT_BYTES, SYSTEM_BYTES, Card, Tensors, arrays, elements


def permute_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Two halves of three words to sort each choice, and 64 bytes for cores to wait for one another."""
    return SYSTEM_BYTES + 24 * _choices(inputs, outputs) + 64 * card.vector_cores


def route_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """A word more for each choice, to scatter."""
    return permute_bytes(inputs, outputs, card) + FLOAT_BYTES * _choices(inputs, outputs)


def route_v2_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    """Two words more for each choice; cores wait by two words each."""
    return SYSTEM_BYTES + 32 * _choices(inputs, outputs) + 2 * FLOAT_BYTES * card.vector_cores


def system_bytes(inputs: Tensors, outputs: Tensors, card: Card) -> int:
    return SYSTEM_BYTES


def _choices(inputs: Tensors, outputs: Tensors) -> int:
    """Tokens times experts of each: the largest array of integers, or the rows that come out where there is none."""
    whole = [elements(tensor) for tensor in arrays([*inputs, *outputs]) if "Int" in tensor.dtype]
    rows = [elements(tensor) // max(tensor.shape[-1], 1) for tensor in arrays(outputs)[:1]]
    return max(whole or rows, default=0)
