"""PROFILE -> TIMES: what a profiler saw of a kernel: of this very one, else of its type and shapes, else of its type.

MindSpore may launch several kernels of the device for one of its own (a Transpose before a MatMul); their averages are
added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import log

from swapconf.timing.cost import FigureOrigin
from swapconf.timing.measurements import Measured, MeasuredCopy
from swapconf.timing.seen import seen_of
from swapconf.trace.trace import Tensor
from swapconf.trace.work import HOST_COPIES, Attention, work
from swapconf.upstream.device_kernels import is_between_stages, kernel_of, primitive_of_launch

Estimate = Callable[[str, tuple[Tensor, ...], tuple[Tensor, ...]], float]


class TimeTable:
    """``estimate``: microseconds by the model, of (primitive, inputs, outputs)."""

    def __init__(self, measured: Measured, estimate: Estimate) -> None:
        of_kernel: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        of_type: dict[str, dict[object, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
        for row in measured.kernels:
            primitive = primitive_of_launch(row.kernel) or row.type
            if row.kernel:
                of_kernel[row.kernel][row.device_name].append(row.duration_us)
            if row.inputs:
                modelled = estimate(primitive, row.inputs, row.outputs)
                if modelled > 0 and row.duration_us > 0:
                    shape = of_type[kernel_of(row.type)][row.inputs, row.outputs]
                    shape[0] += row.duration_us
                    shape[1] += modelled
        self._kernel = {
            name: sum(map(min if is_between_stages(name) else _mean, parts.values()))
            for name, parts in of_kernel.items()
        }
        self._seen = seen_of(measured.kernels)
        self._scale = {name: scale for name, shapes in of_type.items() if (scale := _scale(list(shapes.values())))}
        self._seen_types = frozenset(of_type)
        self._copy, self._us_a_byte = _copies(measured.copies)
        self._average: dict[str, float] = {}
        for name, time in measured.average_us.items():  # the one that takes longest comes first
            self._average.setdefault(kernel_of(name), time)

    def spread(self, launched: Iterable[tuple[str, float, int]]) -> None:
        """Scales from averages by type, for types without rows: (primitive, microseconds by the model, launches)."""
        modelled: dict[str, float] = defaultdict(float)
        times: dict[str, int] = defaultdict(int)
        for primitive, time, count in launched:
            modelled[kernel_of(primitive)] += time
            times[kernel_of(primitive)] += count
        for name, average in self._average.items():
            if name not in self._seen_types and modelled.get(name):
                self._scale[name] = average * times[name] / modelled[name]

    def time_us(
        self,
        kernel: str,
        primitive: str,
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        attention: Attention | None,
        estimated_us: float,
    ) -> tuple[float, FigureOrigin]:
        """What a kernel takes, and how that is known."""
        if kernel in self._kernel:
            return self._kernel[kernel], FigureOrigin.MEASURED
        if primitive in HOST_COPIES:
            return self._copy_us(not outputs, int(work(primitive, inputs, outputs).copied_bytes), estimated_us)
        if (match := self._seen.match(primitive, inputs, outputs, attention)) is not None:
            return match.us, FigureOrigin.MEASURED if match.is_same else FigureOrigin.CALIBRATED
        name = kernel_of(primitive)
        if name in self._scale:
            return estimated_us * self._scale[name], FigureOrigin.CALIBRATED
        return estimated_us, FigureOrigin.ESTIMATED

    def _copy_us(self, to_host: bool, size_bytes: int, estimated_us: float) -> tuple[float, FigureOrigin]:
        if (to_host, size_bytes) in self._copy:
            return self._copy[to_host, size_bytes], FigureOrigin.MEASURED
        if to_host in self._us_a_byte:
            return size_bytes * self._us_a_byte[to_host], FigureOrigin.CALIBRATED
        return estimated_us, FigureOrigin.ESTIMATED


def _scale(shapes: Sequence[Sequence[float]]) -> float | None:
    """``shapes``: microseconds measured and modelled of the shapes of a type. Their sums over each other; None where
    the other shapes' scale does not bring each closer than the model is, in the mean."""
    took, modelled = (sum(shape[side] for shape in shapes) for side in (0, 1))
    if len(shapes) > 1:
        plainly = sum(abs(log(one / other)) for one, other in shapes)
        scaled = sum(abs(log(one / other * (modelled - other) / (took - one))) for one, other in shapes if one < took)
        if scaled > plainly:
            return None
    return took / modelled


def _copies(copies: Sequence[MeasuredCopy]) -> tuple[dict[tuple[bool, int], float], dict[bool, float]]:
    """(microseconds by direction and size, microseconds a byte by direction)."""
    times: dict[tuple[bool, int], list[float]] = defaultdict(list)
    for copy in copies:
        times[copy.to_host, copy.size_bytes].append(copy.duration_us)
    rates = {}
    for direction in {direction for direction, _ in times}:
        mine = [copy for copy in copies if copy.to_host is direction]
        rates[direction] = sum(copy.duration_us for copy in mine) / sum(copy.size_bytes for copy in mine)
    return {key: _mean(found) for key, found in times.items()}, rates


def _mean(times: list[float]) -> float:
    return sum(times) / len(times)
