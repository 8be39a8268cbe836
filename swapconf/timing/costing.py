"""TRACE + HARDWARE -> COSTS: microseconds of every kernel of a step, by what such kernels take, or as measured.

A kernel of a shape that the hardware file saw takes what it took there (`seen`). Any other that computes takes what the
fit of its family, or one's own of its kind, makes of its operations and bytes (`families`), with the range that such
kernels were seen in. Copies and collectives take what they move over their link; start-up times of
collectives are not known publicly and not in the model, so their range is only upwards. A measured profile has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.collectives import collective_us
from swapconf.timing.cost import GIGA, ORIGINS, SPREAD, TERA, Costs, FigureOrigin, Hardware, Host, Machine, Terms
from swapconf.timing.families import FAMILIES, family_of, kind_of, primitive_of, terms
from swapconf.timing.measured import TimeTable
from swapconf.timing.measurements import Measured
from swapconf.timing.program import step_tasks
from swapconf.trace.trace import POINT_TO_POINT, Kernel, Task, Tensor, Trace
from swapconf.trace.work import (
    COLLECTIVES,
    COPY,
    FLASH,
    FLASH_GRAD,
    HOST_COPIES,
    VIEWS,
    Attention,
    Work,
    attention_of,
    size_bytes,
    work,
)
from swapconf.upstream.device_kernels import is_between_stages

_INTEGER = re.compile(r"ValueNode<Int64Imm> (-?\d+)")
COPIES, EXCHANGES = "copies", "collectives"
# what links take over what is told of them: copies came to 0.95 to 1.3 of their rate in public measurements of A2 and
# A3; collectives to the peak of their links where nothing is in the way, and more where cards are not on time
_LINKS: Mapping[str, tuple[float, float]] = {COPIES: (0.9, 1.3), EXCHANGES: (0.4, 1.4)}
# that all cards have; behind these the kinds of kernels that a hardware file of one's own tells
COMMON_GROUPS = (*FAMILIES, *_LINKS, *(origin.value for origin in SPREAD))
_CAUSAL_MODES = frozenset({2, 3})  # leftUpCausal and rightDownCausal of flash attention


@dataclass(frozen=True, slots=True)
class Signature:
    """What kernels that take equally long have in common. ``ranks``: of a collective; of a message its two ends."""

    primitive: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ranks: tuple[int, ...] = ()
    attention: Attention | None = None

    @property
    def seen_attention(self) -> Attention | None:
        """As far as shapes tell it, where nothing else does."""
        return self.attention or attention_of(primitive_of(self.primitive), self.inputs)

    @property
    def whole_bytes(self) -> int:
        """Of a collective, what `collective_us` asks for."""
        return max(size_bytes(self.inputs), size_bytes(self.outputs))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A step as signatures: ``index`` int64 [n] into ``signatures``, and the ``names`` of the n kernels."""

    names: tuple[str, ...]
    signatures: tuple[Signature, ...]
    index: NDArray[np.int64]


def workload(trace: Trace) -> Workload:
    """Once per trace. Raises ValueError where the trace has no graph."""
    known: dict[Signature, int] = {}
    same: dict[tuple[object, ...], int] = {}
    kernels = [kernel for kernel in trace.step if not kernel.is_event]
    index = []
    for kernel, task in zip(kernels, step_tasks(trace), strict=True):
        attention = _attention(kernel)
        # by id: readers keep equal lists once, and the trace keeps them alive; to hash all shapes takes a fifth longer
        key = (task.primitive, id(task.input_tensors), id(task.output_tensors), id(task.attributes), attention)
        if key not in same:
            signature = Signature(
                task.primitive, task.input_tensors, task.output_tensors, _ranks(task, trace.rank), attention
            )
            same[key] = known.setdefault(signature, len(known))
        index.append(same[key])
    return Workload(
        names=tuple(kernel.name for kernel in kernels), signatures=tuple(known), index=np.array(index, dtype=np.int64)
    )


def copies(tensors: Sequence[Tensor], to_host: bool) -> Workload:
    """Copies of these tensors between host and device, as MindSpore launches them: a copy to the host has no output on
    the device, a copy back no input."""
    known: dict[Tensor, int] = {}
    index = [known.setdefault(tensor, len(known)) for tensor in tensors]
    return Workload(
        names=("",) * len(tensors),
        index=np.array(index, dtype=np.int64),
        signatures=tuple(Signature(COPY, *(((tensor,), ()) if to_host else ((), (tensor,)))) for tensor in known),
    )


def operations(load: Workload) -> NDArray[np.float64]:
    """[n] operations of each kernel: of its matrix product, or one an element of the vector unit."""
    return np.array([_products(done) or done.vector_ops for done in _works(load)])[load.index]


def products_us(load: Workload, machine: Machine) -> NDArray[np.float64]:
    """[n] what the matrix product of each kernel takes beside what it reads and writes, 0 where it is none: grows with
    its operations alone. At the peak of the matrix unit on a machine that tells times of shapes or kinds of its own."""
    hardware = machine.hardware
    is_own = bool(machine.measured or hardware.seen or hardware.kinds)
    found = []
    for signature, done in zip(load.signatures, _works(load), strict=True):
        family, made_of = _terms(signature, done, hardware)
        found.append(made_of.matrix_us / (1.0 if is_own else hardware.fits[family].matrix))
    return np.array(found, dtype=np.float64)[load.index]


def _products(done: Work) -> float:
    return done.matrix_ops + done.wide_matrix_ops


def _works(load: Workload) -> list[Work]:
    """By signature."""
    return [work(item.primitive, item.inputs, item.outputs, item.attention) for item in load.signatures]


def costs(load: Workload, hardware: Hardware, host: Host | None = None, measured: Measured | None = None) -> Costs:
    """``measured`` kernels replace the model, or calibrate it where only their type was seen."""
    shared = host or Host()
    known = [_known(signature, hardware, shared) for signature in load.signatures]
    estimated = np.array([item.us for item in known], dtype=np.float64)
    duration = estimated[load.index]
    origin = np.array([ORIGINS.index(item.origin) for item in known], dtype=np.uint8)[load.index]
    groups = _groups(hardware)
    group = np.array([groups[item.group] for item in known], dtype=np.uint8)[load.index]
    spread = _spread(hardware)
    if measured is None:
        return Costs(duration_us=duration, origin=origin, group=group, spread=spread)
    table = TimeTable(
        measured,
        lambda primitive, inputs, outputs: (
            _estimate(Signature(primitive_of(primitive), inputs, outputs), hardware, shared).us
        ),
    )
    launches = np.bincount(load.index, minlength=len(load.signatures))
    table.spread(
        (item.primitive, one.us * int(times), int(times))
        for item, one, times in zip(load.signatures, known, launches, strict=True)
        if not one.is_seen
    )
    for kernel, (name, which) in enumerate(zip(load.names, load.index.tolist(), strict=True)):
        item = load.signatures[which]
        duration[kernel], found = table.time_us(
            name, item.primitive, item.inputs, item.outputs, item.attention, float(estimated[which])
        )
        if known[which].is_seen and found is not FigureOrigin.MEASURED:
            duration[kernel] = estimated[which]  # a hardware file knows this shape, the profile its type only
        elif found is not FigureOrigin.ESTIMATED:
            origin[kernel] = ORIGINS.index(found)
            group[kernel] = groups[found.value]
    for which, item in enumerate(load.signatures):
        if is_between_stages(item.primitive):
            alike = (load.index == which) & (origin == ORIGINS.index(FigureOrigin.MEASURED))
            duration[alike] = duration[alike].min(initial=np.inf)  # the rest of the others was waiting
    return Costs(duration_us=duration, origin=origin, group=group, spread=spread)


def seconds(done: Work, hardware: Hardware, host: Host | None = None) -> float:
    """The longest of what a kernel does that is no collective, at peak rates."""
    value = hardware.value
    products = done.matrix_ops + done.wide_matrix_ops * value("matrix_fp32_slowdown")
    return max(
        products / (value("matrix_tflops") * TERA),
        done.vector_ops / (value("vector_tflops") * TERA),
        done.memory_bytes / (value("memory_gbps") * GIGA),
        done.copied_bytes / ((host or Host()).link_gbps(hardware) * GIGA),
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """``group``: of `_groups`. ``is_seen``: as a hardware file saw it."""

    us: float
    group: str
    origin: FigureOrigin = FigureOrigin.ESTIMATED
    is_seen: bool = False


def _known(signature: Signature, hardware: Hardware, host: Host) -> Estimate:
    """As the hardware file saw it, else estimated."""
    estimate = _estimate(signature, hardware, host)
    if not hardware.seen or not estimate.us or estimate.group in _LINKS:
        return estimate
    match = hardware.seen.match(signature.primitive, signature.inputs, signature.outputs, signature.attention)
    if match is None:
        return estimate
    origin = FigureOrigin.MEASURED if match.is_same else FigureOrigin.CALIBRATED
    return Estimate(match.us, origin.value, origin, is_seen=True)


def _estimate(signature: Signature, hardware: Hardware, host: Host) -> Estimate:
    primitive = primitive_of(signature.primitive)
    if primitive in VIEWS:
        return Estimate(0.0, "other")
    if primitive in COLLECTIVES:
        return Estimate(collective_us(primitive, signature.whole_bytes, signature.ranks, hardware), EXCHANGES)
    done = work(primitive, signature.inputs, signature.outputs, attention=signature.seen_attention)
    if primitive in HOST_COPIES:
        return Estimate(1e6 * seconds(done, hardware, host), COPIES)
    family, made_of = _terms(signature, done, hardware)
    kind = kind_of(primitive, family, signature.inputs, signature.outputs)
    is_own = kind in hardware.kinds or hardware.fits[family].is_own
    return Estimate(
        hardware.time_us(kind, family, made_of),
        kind if kind in hardware.kinds else family,
        FigureOrigin.CALIBRATED if is_own else FigureOrigin.ESTIMATED,
    )


def _terms(signature: Signature, done: Work, hardware: Hardware) -> tuple[str, Terms]:
    """Its family, and what it is made of. ``done``: what it does."""
    primitive = primitive_of(signature.primitive)
    family = family_of(primitive, signature.seen_attention, (*signature.inputs, *signature.outputs))
    return family, terms(primitive, signature.inputs, signature.outputs, done, hardware)


def _spread(hardware: Hardware) -> tuple[tuple[float, float], ...]:
    """By group."""
    of_families = [(hardware.fits[family].low, hardware.fits[family].high) for family in FAMILIES]
    return (*of_families, *_LINKS.values(), *SPREAD.values(), *((fit.low, fit.high) for fit in hardware.kinds.values()))


def _groups(hardware: Hardware) -> Mapping[str, int]:
    """Kernels that are fast or slow together."""
    return {name: number for number, name in enumerate((*COMMON_GROUPS, *hardware.kinds))}


def _ranks(task: Task, rank: int) -> tuple[int, ...]:
    """Of its group; of a message the two that it is between, as its group is the whole pipeline."""
    told = dict(task.attributes)
    ranks = tuple(int(word) for word in told.get("comm_rank", "").split() if word.isdigit())
    peer = told.get("dst_rank" if task.primitive == "Send" else "src_rank", "")
    if task.primitive not in POINT_TO_POINT or not peer.isdigit() or rank not in ranks or int(peer) == rank:
        return ranks
    return tuple(sorted((rank, int(peer))))


def _attention(kernel: Kernel) -> Attention | None:
    """The last arguments are pre_tokens, next_tokens, inner_precise, input_layout and sparse_mode."""
    if kernel.primitive not in (FLASH, FLASH_GRAD):
        return None
    told = [_INTEGER.fullmatch(item) for item in kernel.inputs[-5:]]
    if len(told) < 5 or not all(told):
        return None
    _, following, _, layout, mode = (int(item[1]) for item in told if item)
    return Attention(layout=layout, is_causal=mode in _CAUSAL_MODES or (mode == 0 and following == 0))
