"""RESULT -> BY STEP: what a run of more steps than usual held behind each of them, as its child wrote it down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swapconf.files import json_object

STEPS = 2  # of a run, where no more are asked for: the optimizer's state may first be there in the second

KEY = "by_step"  # in the child's result: the figures of each step, in the order of `StepMemory`


@dataclass(frozen=True, slots=True)
class StepMemory:
    """One step, counted from 1.

    Attributes:
        peak_bytes: The most device memory in use at once, until it ended.
        held_bytes: Device memory in use when it ended.
        process_bytes: What the process itself had of its host then.
        tensors: How many Tensors Python knew then.
    """

    step: int
    peak_bytes: int
    held_bytes: int
    process_bytes: int
    tensors: int


def by_step(result: Path) -> tuple[StepMemory, ...]:
    """None where the file does not tell."""
    told = json_object.read(result).get(KEY)
    if not isinstance(told, list) or not all(map(_is_step, told)):
        return ()
    return tuple(StepMemory(number, *figures) for number, figures in enumerate(told, start=1))


def _is_step(value: object) -> bool:
    return isinstance(value, list) and [type(one) for one in value] == [int] * 4
