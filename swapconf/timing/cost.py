"""COST: what a kernel takes, on which hardware, and how that is known.

A hardware profile is a set of figures, each with its source. What is not publicly known of a card is left out of its
file and taken from the generic profile, and `assumed` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import log

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.measurements import Measured
from swapconf.timing.seen import Seen
from swapconf.words.phrases import mark

GIGA, TERA = 1e9, 1e12
_NEAR, _FAR = 2.0, 8.0  # times as large as what was seen: all as that, and nothing of it

# what a profile can tell, with its unit; rates are peaks unless told otherwise, links are told for one direction
FIGURES: Mapping[str, str] = {
    "matrix_tflops": "matrix unit, dense, 16-bit floats, 10^12 operations a second",
    "matrix_fp32_slowdown": "how many times slower the matrix unit is on 32-bit floats",
    "vector_tflops": "vector unit, 16-bit floats, 10^12 operations a second",
    "memory_gbps": "device memory, 10^9 bytes a second",
    "memory_sustained_gbps": "device memory as measured on kernels that move much, 10^9 bytes a second",
    "host_link_gbps": "between host and one card, 10^9 bytes a second",
    "peer_link_gbps": "one link between two cards of a host, 10^9 bytes a second",
    "peer_links": "how many such links a card uses at once",
    "collective_slowdown": "how many times longer a collective takes in a step than at the peak of its links",
    "collective_start_us": "what a collective takes beside what it moves, microseconds",
    "network_gbps": "between cards of two hosts, for one card, 10^9 bytes a second",
    "network_latency_us": "what each step of a collective between hosts takes beside what it moves, microseconds",
    "cards_per_host": "cards, as MindSpore counts devices, of one host",
}

# what a profile can tell of a card besides times: what it is made of, and what it holds
CARD_FIGURES: Mapping[str, str] = {
    "cube_cores": "cores with a matrix unit; a card of the Ascend 910B has twice as many vector cores",
    "cache_mib": "level 2 cache, which all cores share, 2^20 bytes",
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
    profiler saw of its type over what is estimated of that (of a copy: its bytes at the rate that was seen), or by
    what a hardware file of one's own tells of such kernels; ``estimated``: from shapes, the rates of the card, and how
    far public kernels came up to them."""

    MEASURED = mark("measured")
    CALIBRATED = mark("calibrated")
    ESTIMATED = mark("estimated")


ORIGINS = tuple(FigureOrigin)

# what a kernel takes over what is told of it, where a profile tells: by the mean of the same shapes, and by that of
# other shapes of its type
SPREAD: Mapping[FigureOrigin, tuple[float, float]] = {
    FigureOrigin.MEASURED: (0.95, 1.1),
    FigureOrigin.CALIBRATED: (0.75, 1.4),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    value: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a kernel is made of, before anything is fitted.

    Attributes:
        spread: log2 of the vector cores that its elements are spread over.
        full: 1 where that is all of them.
        matrix_us: Its operations at the peak of the matrix unit.
        cached_us, memory_us: The bytes that it touches, at the peak of the memory where they may still lie in the
            cache, at the sustained rate where not.
    """

    spread: float = 0.0
    full: float = 0.0
    matrix_us: float = 0.0
    cached_us: float = 0.0
    memory_us: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """What kernels of a family take; see `swapconf.timing.families`.

    Attributes:
        floor_us: The least of them.
        spread_us: What each doubling of the cores that it is spread over adds.
        full_us: What it adds that these are all cores.
        matrix, cached, memory: Of the card's rates; above 1 where the cache is faster than the memory.
        low, high: What real kernels take over what this says, from the few fastest to the few slowest.
        kernels: How many it was fitted to; 0: it is assumed.
        is_own: From a profile of one's own.
        least_us, most_us: From the least to the largest kernel that it was fitted to, as they were estimated before.
    """

    floor_us: float
    spread_us: float
    full_us: float
    matrix: float
    cached: float
    memory: float
    low: float
    high: float
    kernels: int
    source: str
    is_own: bool = False
    least_us: float = 0.0
    most_us: float = float("inf")

    def time_us(self, terms: Terms) -> float:
        bound = terms.matrix_us / self.matrix + terms.cached_us / self.cached + terms.memory_us / self.memory
        return self.floor_us + self.spread_us * terms.spread + self.full_us * terms.full + bound

    def goes_on(self, terms: Terms, before: Fit) -> float:
        """What it says of kernels like those that it was fitted to; the more another one is beyond them, the more what
        was known before."""
        before_us = before.time_us(terms)
        times = max(before_us / self.most_us, self.least_us / before_us, _NEAR)
        share = min(log(times / _NEAR) / log(_FAR / _NEAR), 1.0)
        return float(self.time_us(terms) ** (1 - share) * before_us**share)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """One card and its links. ``figures`` has every name of FIGURES and ``card`` of CARD_FIGURES; ``assumed`` and
    ``assumed_of_card``: those that are of the generic profile. ``fits``: by family of kernels, every one of
    `swapconf.timing.families`; ``kinds``: those of a profile of one's own, by kind of kernels (`families.kind_of`).
    ``seen``: shapes that such a profile measured, which go before every fit."""

    name: str
    figures: Mapping[str, Figure]
    card: Mapping[str, Figure]
    assumed: frozenset[str] = frozenset()
    assumed_of_card: frozenset[str] = frozenset()
    fits: Mapping[str, Fit] = field(default_factory=dict)
    kinds: Mapping[str, Fit] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)

    def value(self, name: str) -> float:
        return self.figures[name].value

    def time_us(self, kind: str, family: str, terms: Terms) -> float:
        """What a kernel takes that was not seen."""
        known = self.fits[family]
        own = self.kinds.get(kind)
        return known.time_us(terms) if own is None else own.goes_on(terms, known)

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
class Machine:
    """What a step is timed on, and what a profiler saw there. ``cann``: the release of CANN whose kernels run there, ""
    for the newest that is known."""

    hardware: Hardware
    host: Host = Host()
    measured: Measured | None = None
    cann: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A time with its range, and how the kernels that it is made of are known: the part of their time, 0 to 1, by
    origin."""

    us: float
    low_us: float
    high_us: float
    share: Mapping[FigureOrigin, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """One training step. ``exposed_copy``, ``exposed_collective``: how long the main stream stands still for them."""

    step: Known
    exposed_copy: Known
    exposed_collective: Known


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of each kernel of a step, in order: ``duration_us`` float64 [n], ``origin`` uint8 [n], index into ORIGINS,
    ``group`` uint8 [n]: kernels that are fast or slow together. ``spread``: by group, times the duration it is the
    range that a kernel is expected in; the same of all costs of a card."""

    duration_us: NDArray[np.float64]
    origin: NDArray[np.uint8]
    group: NDArray[np.uint8]
    spread: tuple[tuple[float, float], ...]

    def share(self, origin: FigureOrigin) -> float:
        """The part of the time, 0 to 1, that is known in this way."""
        total = float(self.duration_us.sum())
        mine = float(self.duration_us[self.origin == ORIGINS.index(origin)].sum())
        return mine / total if total else 0.0

    def shares(self) -> dict[FigureOrigin, float]:
        """Of the origins that occur."""
        return {origin: share for origin in FigureOrigin if (share := self.share(origin))}

    def range_of(self, time_us: float) -> tuple[float, float]:
        """Of a time that is made of these kernels. Those of a group are fast or slow together; groups are so each by
        itself, so that their deviations add up as squares."""
        by_group = np.bincount(self.group, weights=self.duration_us, minlength=len(self.spread))
        total = float(by_group.sum())
        if not total:
            return time_us, time_us
        below, above = (np.abs(np.array(self.spread)[:, side] - 1) * by_group for side in (0, 1))
        return (
            time_us * (1 - float(np.linalg.norm(below)) / total),
            time_us * (1 + float(np.linalg.norm(above)) / total),
        )

    def at(self, side: int) -> NDArray[np.float64]:
        """[n] how long each kernel takes at its fastest, 0, or at its slowest, 1."""
        factor: NDArray[np.float64] = np.array(self.spread)[self.group, side]
        return factor * self.duration_us

    def known(self, time_us: float) -> Known:
        """A time that is made of these kernels."""
        low_us, high_us = self.range_of(time_us)
        return Known(us=time_us, low_us=low_us, high_us=high_us, share=self.shares())

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Costs:
        """Of some kernels, in their order."""
        return Costs(
            duration_us=self.duration_us[rows], origin=self.origin[rows], group=self.group[rows], spread=self.spread
        )
