"""MEASURED KERNELS -> SEEN: what kernels of the shapes of a profile took, looked up for the kernels of a trace.

A profile and a trace tell the same kernel differently: `MatMulV3` of two tensors is `MatMul` of two tensors and two
flags, a row has the axes of a reduction as a tensor, a mask has elements of another one-byte type. So a shape is looked
up as it is told, else without what makes no difference: axes of length 1, what is too small to be data, the order of
the tensors, which type of one byte. Flash attention is found in another layout, too, which is nearly the same kernel.

What MindSpore launches for one of its primitives may be several kernels of the device (a `Cast` before an `Add`); the
one that is called like the primitive stands for all of them, with their time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from statistics import median

from swapconf.timing.measurements import Formats, MeasuredKernel
from swapconf.trace.trace import Tensor
from swapconf.trace.work import ASSIGNING, FLASH, FLASH_GRAD, Attention, attention_of
from swapconf.upstream.device_kernels import kernel_of, plain, primitive_of_launch

LEAST_US = 0.1  # less is a kernel that did nothing
_FEW = 8  # elements; axes, sizes and flags have no more
_ONE_BYTE = frozenset({"Bool", "Int8", "UInt8"})
_ATTENTION = {plain(name): name for name in (FLASH, FLASH_GRAD)}
_ROWS_OF_SOFTMAX = 8  # the last axis of what flash attention keeps of its softmax
_WRITING = frozenset(map(plain, ASSIGNING))

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenShape:
    """One kind of kernel with its shapes.

    Attributes:
        type: As the profiler calls it.
        primitive: Of MindSpore, for which it stood; "" where that is not told, or is called alike.
        formats: As of `MeasuredKernel`.
        us: The median.
        launches: How many were seen.
    """

    type: str
    primitive: str = ""
    inputs: Tensors
    outputs: Tensors
    formats: Formats = ((), ())
    us: float
    launches: int

    @property
    def names(self) -> tuple[str, ...]:
        return (self.type, self.primitive) if self.primitive else (self.type,)

    @property
    def key(self) -> Hashable:
        """What no two of a table have in common."""
        return plain(self.type), plain(self.primitive), self.inputs, self.outputs, self.formats


@dataclass(frozen=True, slots=True)
class Match:
    """``is_same``: the very kernel; else flash attention of the same size in another layout."""

    us: float
    is_same: bool


@dataclass(frozen=True)
class Seen:
    """A table of shapes."""

    shapes: tuple[SeenShape, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.shapes)

    def match(
        self, primitive: str, inputs: Tensors, outputs: Tensors, attention: Attention | None = None
    ) -> Match | None:
        """What a kernel of a trace takes, None where none like it was seen."""
        if not self.shapes:
            return None
        exact, loose, sized = self._tables
        us = exact.get((plain(primitive), inputs, outputs))
        if us is None:
            us = loose.get(_loose_key(primitive, inputs, outputs))
        if us is not None:
            return Match(us, is_same=True)
        key = _attention_key(primitive, inputs, outputs, attention)
        us = None if key is None else sized.get(key)
        return None if us is None else Match(us, is_same=False)

    def with_later(self, later: Seen) -> Seen:
        """Both; of a shape that both have what was measured later."""
        shapes = {shape.key: shape for shape in (*self.shapes, *later.shapes)}
        return Seen(tuple(sorted(shapes.values(), key=lambda shape: (shape.type, repr(shape.key)))))

    @cached_property
    def _tables(self) -> tuple[Mapping[Hashable, float], ...]:
        """By the key of each way to look up: microseconds."""
        plainly = [shape for shape in self.shapes if shape.formats == ((), ())]
        return (
            _table(plainly, lambda name, shape: (plain(name), shape.inputs, shape.outputs)),
            _table(plainly, lambda name, shape: _loose_key(name, shape.inputs, shape.outputs)),
            _table(plainly, lambda name, shape: _attention_key(name, shape.inputs, shape.outputs)),
        )


def seen_of(kernels: Iterable[MeasuredKernel]) -> Seen:
    """The shapes of a profile."""
    rows = [kernel for kernel in kernels if kernel.duration_us >= LEAST_US]
    led = _led(rows)
    times: dict[Hashable, list[float]] = defaultdict(list)
    told: dict[Hashable, SeenShape] = {}
    for row in rows:
        if not row.inputs and not row.outputs:
            continue
        primitive, more_us = led.get((row.kernel, row.device_name), ("", 0.0))
        shape = SeenShape(
            type=row.type,
            primitive="" if plain(primitive) == plain(row.type) else primitive,
            inputs=row.inputs,
            outputs=row.outputs,
            formats=row.formats,
            us=row.duration_us,
            launches=1,
        )
        told.setdefault(shape.key, shape)
        times[shape.key].append(row.duration_us + more_us)
    shapes = (
        SeenShape(
            type=shape.type,
            primitive=shape.primitive,
            inputs=shape.inputs,
            outputs=shape.outputs,
            formats=shape.formats,
            us=median(times[key]),
            launches=len(times[key]),
        )
        for key, shape in told.items()
    )
    return Seen().with_later(Seen(tuple(shapes)))


def _led(rows: Sequence[MeasuredKernel]) -> dict[tuple[str, str], tuple[str, float]]:
    """By launch of MindSpore and kernel of the device: the primitive for which it stands, and what the others take for
    each time that it runs. One of each launch: that which is called like the primitive, else the longest."""
    launches: dict[str, dict[str, list[MeasuredKernel]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.kernel:
            launches[row.kernel][row.device_name].append(row)
    found = {}
    for name, parts in launches.items():
        primitive = primitive_of_launch(name)
        totals = {part: sum(row.duration_us for row in mine) for part, mine in parts.items()}
        alike = [part for part, mine in parts.items() if kernel_of(mine[0].type) == kernel_of(primitive)]
        first = max(alike or totals, key=lambda part: totals[part])
        found[name, first] = primitive, (sum(totals.values()) - totals[first]) / len(parts[first])
    return found


def _table(
    shapes: Sequence[SeenShape], key_of: Callable[[str, SeenShape], Hashable | None]
) -> Mapping[Hashable, float]:
    found: dict[Hashable, list[SeenShape]] = defaultdict(list)
    for shape in shapes:
        for name in shape.names:
            if (key := key_of(name, shape)) is not None:
                found[key].append(shape)
    return {key: _middle(mine) for key, mine in found.items()}


def _middle(shapes: Sequence[SeenShape]) -> float:
    """The median of all launches, as far as medians tell it."""
    ordered = sorted(shapes, key=lambda shape: shape.us)
    counts = list(accumulate(shape.launches for shape in ordered))
    return next(shape.us for shape, count in zip(ordered, counts, strict=True) if 2 * count >= counts[-1])


def _loose_key(name: str, inputs: Tensors, outputs: Tensors) -> Hashable:
    read = inputs[1:] if plain(name) in _WRITING and len(inputs) > 1 else inputs  # the first is what is written
    return kernel_of(name), _data(read), _data(outputs)


def _data(tensors: Tensors) -> Hashable:
    """What is moved: sorted, without axes of length 1 and what is too small; where all is small the first one."""
    large = [tensor for tensor in tensors if prod(tensor.shape) > _FEW or any(size < 0 for size in tensor.shape)]
    if not large:
        return tuple((_bytes_of(tensor.dtype), tensor.shape) for tensor in tensors[:1])
    return tuple(sorted((_bytes_of(tensor.dtype), tuple(n for n in tensor.shape if n != 1)) for tensor in large))


def _bytes_of(dtype: str) -> str:
    return "Int8" if dtype in _ONE_BYTE else dtype


def _attention_key(name: str, inputs: Tensors, outputs: Tensors, attention: Attention | None = None) -> Hashable | None:
    """Batch, heads and length of the queries, which the rows of the softmax tell in any layout; the sizes of queries,
    keys and values; whether the mask is causal."""
    call = attention or attention_of(_ATTENTION.get(plain(name), ""), inputs)
    if call is None or len(inputs) < 3:
        return None
    for tensor in (*outputs, *inputs):
        if tensor.dtype == "Float32" and len(tensor.shape) == 4 and tensor.shape[-1] == _ROWS_OF_SOFTMAX:
            sizes = tuple(prod(part.shape) for part in inputs[:3])
            return plain(name), call.is_causal, inputs[0].dtype, tensor.shape[:3], sizes
    return None
