"""STEP_TRACE_TIME.CSV -> ROWS: what a profiler itself says of each step, in microseconds without a unit.

torch_npu writes a column ``Device_id``, MindSpore does not, and its bubble is another one: see `measured_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapconf.profile.profiler_csv import Header, each, scaled
from swapconf.words.phrases import phrase

NEEDED = ("Step", "Computing", "Communication", "Free", "Bubble")
_US = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ToldStep:
    """``counts_batches``: the bubble has sends and batches in it, not receives alone."""

    device: str
    step: str
    computing_ns: int
    communicating_ns: int
    overlapped_ns: int
    free_ns: int
    bubble_ns: int
    counts_batches: bool


def read(*paths: str | Path) -> tuple[ToldStep, ...]:
    """Raises SwapconfError, with a finding for each line that is wrong."""
    return tuple(each(paths, NEEDED, _parser))


def _parser(header: Header) -> Callable[[Sequence[str]], ToldStep]:
    device, step = header.text("Device_id"), header.text("Step")

    def time_ns(column: str) -> Callable[[Sequence[str]], int]:
        read_text = header.text(column)

        def of(row: Sequence[str]) -> int:
            time = scaled(read_text(row), _US, column) or 0
            if time < 0:
                raise ValueError(phrase("{column} is empty or negative", column=column))
            return time

        return of

    computing, communicating, overlapped, free, bubble = map(
        time_ns, ("Computing", "Communication", "Overlapped", "Free", "Bubble")
    )

    def parse(row: Sequence[str]) -> ToldStep:
        return ToldStep(
            device=device(row),
            step=step(row),
            computing_ns=computing(row),
            communicating_ns=communicating(row),
            overlapped_ns=overlapped(row),
            free_ns=free(row),
            bubble_ns=bubble(row),
            counts_batches="Device_id" not in header,
        )

    return parse
