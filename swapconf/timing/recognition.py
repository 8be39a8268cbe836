"""MEASURED -> LIKENESS: which of the cards that are shipped a profile looks like.

The profiler's own record of the device tells cores and clock. Without it the rows do: on how many cores large kernels
run, and how many cycles they count in their time. What memory and matrix unit reach at most tells cards apart that have
the same cores, and stands alone where nothing is counted.

A figure speaks against a card by how many times (as a logarithm) it is off what is publicly known. 0.09 are seen of the
very card: an Ascend 910B4, of which 1500 MHz are told, was measured at 1650.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from swapconf.timing.cost import GIGA, TERA, Hardware
from swapconf.timing.families import computes, is_flat, primitive_of
from swapconf.timing.measurements import Device, MeasuredKernel
from swapconf.trace.work import FILLING, MATRIX, work
from swapconf.words.units import MIB

MATRIX_CORE, VECTOR_CORE = "AI_CORE", "AI_VECTOR_CORE"  # as profilers call them
_VECTORS_A_CUBE = 2
_OPERATIONS_A_CYCLE = 2 * 16**3  # of a matrix core
_LONG_US = 20.0  # shorter kernels count few cycles
_SHARE = 0.05  # of the kernels of a kind of core; fewer may divide themselves further than there are cores
_FEWEST = 3  # kernels that have to tell a figure
_LARGE_BYTES = 400 * MIB  # twice what any cache holds
_LONG_PRODUCT_US = 150.0
# of their peaks, what the fastest large kernels of public profiles come to: 0.80 to 0.88, and 0.83 to 0.92
_OF_MEMORY, _OF_MATRIX = 0.85, 0.88
_UNKNOWN = 0.2  # counts a figure that a card does not tell
_BEYOND = 1.15  # no kernel comes to so much of the peak of its card: its shapes are not true
_SAME = 0.12  # no card that is meant is further from what is told of it
_APART = 0.05  # a card that is closer by this is another one
_ALIKE = 0.015  # cards that are off by so little more may be meant, too


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """What a profile tells of its card; 0: nothing. ``memory_gbps``, ``matrix_tflops``: what is reached at most."""

    cube_cores: int = 0
    clock_mhz: float = 0.0
    memory_gbps: float = 0.0
    matrix_tflops: float = 0.0

    def __bool__(self) -> bool:
        return any((self.cube_cores and self.clock_mhz, self.memory_gbps, self.matrix_tflops))

    def distance(self, card: Hardware) -> float:
        """The farthest that a figure is off what is expected of this card."""
        cores = 0.0 if "cube_cores" in card.assumed_of_card else card.card["cube_cores"].value
        peak_tflops = 0.0 if "matrix_tflops" in card.assumed else card.value("matrix_tflops")
        peak_gbps = 0.0 if "memory_gbps" in card.assumed else card.value("memory_gbps")
        clock_mhz = peak_tflops * TERA / (cores * _OPERATIONS_A_CYCLE * 1e6) if cores else 0.0
        fastest = _OF_MATRIX * peak_tflops  # of products: slower ones tell of their form only
        return max(
            _off(self.cube_cores, cores),
            _off(self.clock_mhz, clock_mhz),
            _off(self.memory_gbps, _OF_MEMORY * peak_gbps),
            _off(self.matrix_tflops, fastest) if self.matrix_tflops > fastest else 0.0,
        )

    def nearest(self, cards: Mapping[str, Hardware]) -> tuple[str, ...]:
        """Names of the cards that it may be of, the most alike first; none where it is like none."""
        known = sorted((self.distance(card), name) for name, card in cards.items())
        if not self or not known or known[0][0] > _SAME:
            return ()
        return tuple(name for distance, name in known if distance <= known[0][0] + _ALIKE)

    def is_of_another(self, named: Hardware, cards: Mapping[str, Hardware]) -> bool:
        """Whether one of ``cards`` is clearly more alike than the one that is named, or none is like it."""
        if not self:
            return False
        least = min((self.distance(card) for card in cards.values()), default=0.0)
        return self.distance(named) > least + _APART or self.distance(named) > 2 * _SAME


def _off(seen: float, expected: float) -> float:
    """``expected``: 0 where the card does not tell it."""
    return (abs(log(seen / expected)) if expected else _UNKNOWN) if seen else 0.0


def likeness(
    kernels: Sequence[MeasuredKernel], cards: Mapping[str, Hardware], device: Device | None = None
) -> Likeness:
    """``cards``: all that are known. ``device``: as the profiler's own record tells it."""
    clocks = [kernel.clock_mhz for kernel in kernels if kernel.clock_mhz > 0 and kernel.duration_us >= _LONG_US]
    return Likeness(
        cube_cores=device.cube_cores if device else _cores(kernels),
        clock_mhz=device.clock_mhz if device else float(np.median(clocks)) if len(clocks) >= _FEWEST else 0.0,
        memory_gbps=_fastest([rate / GIGA for rate in _memory_rates(kernels)], cards, "memory_gbps"),
        matrix_tflops=_fastest([rate / TERA for rate in _matrix_rates(kernels)], cards, "matrix_tflops"),
    )


def _cores(kernels: Sequence[MeasuredKernel]) -> int:
    """The most that some kernels of a kind of core run on."""
    for kind, share in ((MATRIX_CORE, 1), (VECTOR_CORE, _VECTORS_A_CUBE)):
        counted = Counter(kernel.blocks for kernel in kernels if kernel.core == kind and kernel.blocks)
        enough = max(_FEWEST, _SHARE * counted.total())
        blocks = max((blocks for blocks, times in counted.items() if times >= enough), default=0)
        if blocks and blocks % share == 0:
            return blocks // share
    return 0


def _memory_rates(kernels: Iterable[MeasuredKernel]) -> Iterator[float]:
    """Bytes a second of large flat kernels that read and write: filling may be faster than the memory."""
    for kernel in kernels:
        primitive = primitive_of(kernel.type)
        if computes(kernel) and primitive not in FILLING and is_flat((*kernel.inputs, *kernel.outputs)):
            done = work(primitive, kernel.inputs, kernel.outputs)
            if done.memory_bytes >= _LARGE_BYTES and kernel.duration_us:
                yield 1e6 * done.memory_bytes / kernel.duration_us


def _matrix_rates(kernels: Iterable[MeasuredKernel]) -> Iterator[float]:
    """Operations a second of long products of 16-bit floats."""
    for kernel in kernels:
        if kernel.duration_us >= _LONG_PRODUCT_US and computes(kernel):
            primitive = primitive_of(kernel.type)
            if primitive in MATRIX and not any(map(any, kernel.formats)):
                yield 1e6 * work(primitive, kernel.inputs, kernel.outputs).matrix_ops / kernel.duration_us


def _fastest(rates: Iterable[float], cards: Mapping[str, Hardware], name: str) -> float:
    found = sorted(rate for rate in rates if rate > 0)
    most = _BEYOND * max((card.value(name) for card in cards.values()), default=0.0)
    return found[-1] if len(found) >= _FEWEST and found[-1] <= most else 0.0
