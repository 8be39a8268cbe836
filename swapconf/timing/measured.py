"""PROFILE -> TIMES: what a profiler saw of a kernel: of this very one, else of its type and shapes, else of its type.

MindSpore may launch several kernels of the device for one of its own (a Transpose before a MatMul); their averages are
added. Types are compared without what the device adds to the names of primitives: ``MatMulV3`` is ``MatMul``,
``hcom_allReduce_`` is ``AllReduce``, ``aclnnAdd`` is ``Add``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from swapconf.timing.cost import FigureOrigin, Measured, MeasuredCopy
from swapconf.trace.trace import Tensor
from swapconf.trace.work import COPY, work

Estimate = Callable[[str, tuple[Tensor, ...], tuple[Tensor, ...]], float]
_DECORATION = re.compile(r"^(?:hcom_?|aclnn|inner_?)|(?:v\d+|_+)$")
_PRIMITIVE = re.compile(r"/(\w+)-op\d+$")
_BETWEEN_STAGES = frozenset({"batchisendirecv", "batchsendrecv", "irecv", "isend", "receive", "recv", "send"})


class TimeTable:
    """``estimate``: microseconds by the model, of (primitive, inputs, outputs)."""

    def __init__(self, measured: Measured, estimate: Estimate) -> None:
        of_kernel: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        of_shape: dict[tuple[object, ...], list[float]] = defaultdict(list)
        seen: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for row in measured.kernels:
            launcher = _PRIMITIVE.search(row.kernel)
            primitive = launcher[1] if launcher else row.type
            if row.kernel:
                of_kernel[row.kernel][row.device_name].append(row.duration_us)
            if row.inputs:
                of_shape[plain(row.type), shapes(row.inputs)].append(row.duration_us)
                modelled = estimate(primitive, row.inputs, row.outputs)
                if modelled > 0:
                    seen[plain(row.type)][0] += row.duration_us
                    seen[plain(row.type)][1] += modelled
        self._kernel = {
            name: sum(map(min if is_between_stages(name) else _mean, parts.values()))
            for name, parts in of_kernel.items()
        }
        self._shape = {key: _mean(times) for key, times in of_shape.items()}
        self._scale = {name: took / modelled for name, (took, modelled) in seen.items()}
        self._copy, self._us_a_byte = _copies(measured.copies)
        self._average = {plain(name): time for name, time in measured.average_us.items()}

    def spread(self, launched: Iterable[tuple[str, float, int]]) -> None:
        """Scales from averages by type, for types without rows: (primitive, microseconds by the model, launches)."""
        modelled: dict[str, float] = defaultdict(float)
        times: dict[str, int] = defaultdict(int)
        for primitive, time, count in launched:
            modelled[plain(primitive)] += time
            times[plain(primitive)] += count
        for name, average in self._average.items():
            if name not in self._scale and modelled.get(name):
                self._scale[name] = average * times[name] / modelled[name]

    def time_us(
        self, kernel: str, primitive: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], estimated_us: float
    ) -> tuple[float, FigureOrigin]:
        """What a kernel takes, and how that is known."""
        if kernel in self._kernel:
            return self._kernel[kernel], FigureOrigin.MEASURED
        if primitive == COPY:
            return self._copy_us(not outputs, int(work(COPY, inputs, outputs).copied_bytes), estimated_us)
        name = plain(primitive)
        if (key := (name, shapes(inputs))) in self._shape:
            return self._shape[key], FigureOrigin.MEASURED
        if name in self._scale:
            return estimated_us * self._scale[name], FigureOrigin.CALIBRATED
        return estimated_us, FigureOrigin.ESTIMATED

    def _copy_us(self, to_host: bool, size_bytes: int, estimated_us: float) -> tuple[float, FigureOrigin]:
        if (to_host, size_bytes) in self._copy:
            return self._copy[to_host, size_bytes], FigureOrigin.MEASURED
        if to_host in self._us_a_byte:
            return size_bytes * self._us_a_byte[to_host], FigureOrigin.CALIBRATED
        return estimated_us, FigureOrigin.ESTIMATED


def plain(name: str) -> str:
    """The name of a type without decoration, in small letters."""
    text = name.lower()
    while (shorter := _DECORATION.sub("", text)) != text and shorter:
        text = shorter
    return text


def is_between_stages(name: str) -> bool:
    """Whether a type, or a kernel of MindSpore, is a message between two ranks: what it takes beyond the shortest of
    its kind is waiting for the other one."""
    launched = _PRIMITIVE.search(name)
    return plain(launched[1] if launched else name) in _BETWEEN_STAGES


def shapes(tensors: tuple[Tensor, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Of all that are no scalars, which MindSpore counts as tensors and the device does not."""
    return tuple((tensor.dtype, tensor.shape) for tensor in tensors if tensor.shape and 0 not in tensor.shape)


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
