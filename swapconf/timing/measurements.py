"""MEASUREMENTS: what a profiler saw of a real run, as values: kernels, copies, averages, and the card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swapconf.trace.trace import Tensor

Formats = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredKernel:
    """A row of a profile.

    Shapes are empty where they were not recorded (profiler level 0).

    Attributes:
        kernel: The kernel of MindSpore that launched it, "" where that is not told.
        type: Of the operator, as the profiler calls it.
        core: What it ran on, as the profiler calls it; "" where that is not told.
        formats: Of inputs and of outputs, as far as elements lie otherwise than their shape says (FRACTAL_NZ); ()
            where none does.
        blocks: On how many cores; 0 where that is not told.
        clock_mhz: Of these cores, by the cycles that were counted; 0 where none were.
    """

    kernel: str
    device_name: str
    type: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    duration_us: float
    core: str = ""
    formats: Formats = ((), ())
    blocks: int = 0
    clock_mhz: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCopy:
    """One copy between device and host, with all that shared the link at that time."""

    to_host: bool
    size_bytes: int
    duration_us: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """The card as the profiler's own record of the device tells it."""

    cube_cores: int
    clock_mhz: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """``kernels``: of kernel_details.csv. ``average_us``: by type, of op_statistic.csv, and of the collectives in
    trace_view.json, which also has the ``copies``. ``device``: of info.json.*, None where there is none."""

    kernels: tuple[MeasuredKernel, ...] = ()
    copies: tuple[MeasuredCopy, ...] = ()
    average_us: Mapping[str, float] = field(default_factory=dict)
    device: Device | None = None
