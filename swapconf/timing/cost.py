"""COST: what a kernel takes, on which hardware, and how that is known.

A hardware profile is a set of figures, each with its source. What is not publicly known of a card is left out of its
file and taken from the generic profile, and `assumed` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.trace import Tensor
from swapconf.words.phrases import mark

GIGA, TERA = 1e9, 1e12

# what a profile can tell, with its unit; all rates are peaks, links are told for one direction
FIGURES: Mapping[str, str] = {
    "matrix_tflops": "matrix unit, dense, 16-bit floats, 10^12 operations a second",
    "matrix_fp32_slowdown": "how many times slower the matrix unit is on 32-bit floats",
    "vector_tflops": "vector unit, 16-bit floats, 10^12 operations a second",
    "memory_gbps": "device memory, 10^9 bytes a second",
    "host_link_gbps": "between host and one card, 10^9 bytes a second",
    "peer_link_gbps": "one link between two cards of a host, 10^9 bytes a second",
    "peer_links": "how many such links a card uses at once",
    "network_gbps": "between cards of two hosts, for one card, 10^9 bytes a second",
    "cards_per_host": "cards, as MindSpore counts devices, of one host",
}

# what a profile can tell of a card besides times: what it is made of, and what it holds
CARD_FIGURES: Mapping[str, str] = {
    "cube_cores": "cores with a matrix unit; a card of the Ascend 910B has twice as many vector cores",
    "cache_mib": "level 2 cache, 2^20 bytes",
    "memory_gib": "device memory, 2^30 bytes",
    "host_unbound_share": "of the host's bandwidth, what is left where pinned memory lies with another CPU, 0 to 1",
    **{
        f"{part}_{which}gib": f"{what}, {words}, 2^30 bytes"
        for part, what in (
            ("idle", "what an idle card holds"),
            ("runtime", "what CANN and the driver hold for a process beside pool and communication"),
            ("elsewhere", "what the pool of another rank or moment holds more in PyNative mode"),
        )
        for which, words in (("least_", "the least"), ("", "the middle"), ("most_", "the most"))
    },
}


class FigureOrigin(Enum):
    """``measured``: a profiler saw this kernel, or one of its type and shapes; ``calibrated``: estimated, times what a
    profiler saw of its type over what is estimated of that (of a copy: its bytes at the rate that was seen);
    ``estimated``: from shapes and peak rates alone, which is less than the kernel really takes."""

    MEASURED = mark("measured")
    CALIBRATED = mark("calibrated")
    ESTIMATED = mark("estimated")


ORIGINS = tuple(FigureOrigin)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    value: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """One card and its links. ``figures`` has every name of FIGURES and ``card`` of CARD_FIGURES; ``assumed``: those of
    FIGURES that are of the generic profile."""

    name: str
    figures: Mapping[str, Figure]
    card: Mapping[str, Figure]
    assumed: frozenset[str] = frozenset()

    def value(self, name: str) -> float:
        return self.figures[name].value

    def having(self, name: str, value: float, source: str) -> Hardware:
        """The same with one figure changed."""
        return replace(
            self, figures={**self.figures, name: Figure(value=value, source=source)}, assumed=self.assumed - {name}
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """What the cards of a host share.

    Attributes:
        bandwidth_gbps: 10^9 bytes a second in one direction, for all cards together.
        cards: How many copy at the same time.
    """

    cards: int = 1
    bandwidth_gbps: float = float("inf")

    def link_gbps(self, hardware: Hardware) -> float:
        """What one card gets when all copy at once."""
        return min(hardware.value("host_link_gbps"), self.bandwidth_gbps / self.cards)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredKernel:
    """A row of a profile.

    Shapes are empty where they were not recorded (profiler level 0).

    Attributes:
        kernel: The kernel of MindSpore that launched it, "" where that is not told.
        type: Of the operator, as the profiler calls it.
    """

    kernel: str
    device_name: str
    type: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    duration_us: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCopy:
    """One copy between device and host, with all that shared the link at that time."""

    to_host: bool
    size_bytes: int
    duration_us: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """``kernels``: of kernel_details.csv. ``average_us``: by type, of op_statistic.csv, and of the collectives in
    trace_view.json, which also has the ``copies``."""

    kernels: tuple[MeasuredKernel, ...] = ()
    copies: tuple[MeasuredCopy, ...] = ()
    average_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What a step is timed on, and what a profiler saw there. ``cann``: the release of CANN whose kernels run there, ""
    for the newest that is known."""

    hardware: Hardware
    host: Host = Host()
    measured: Measured | None = None
    cann: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A time, and how the kernels that it is made of are known: the part of their time, 0 to 1, by origin."""

    us: float
    share: Mapping[FigureOrigin, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """One training step. ``exposed_copy``, ``exposed_collective``: how long the main stream stands still for them."""

    step: Known
    exposed_copy: Known
    exposed_collective: Known


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of each kernel of a step, in order: ``duration_us`` float64 [n], ``origin`` uint8 [n], index into ORIGINS."""

    duration_us: NDArray[np.float64]
    origin: NDArray[np.uint8]

    def share(self, origin: FigureOrigin) -> float:
        """The part of the time, 0 to 1, that is known in this way."""
        total = float(self.duration_us.sum())
        mine = float(self.duration_us[self.origin == ORIGINS.index(origin)].sum())
        return mine / total if total else 0.0

    def shares(self) -> dict[FigureOrigin, float]:
        """Of the origins that occur."""
        return {origin: share for origin in FigureOrigin if (share := self.share(origin))}

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Costs:
        """Of some kernels, in their order."""
        return Costs(duration_us=self.duration_us[rows], origin=self.origin[rows])
