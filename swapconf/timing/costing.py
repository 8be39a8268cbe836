"""TRACE + HARDWARE -> COSTS: microseconds of every kernel of a step, by what such kernels take, or as measured.

A kernel that computes takes what the fit of its family makes of its operations and bytes (`families`), with the range
that kernels of this family were seen in. Copies and collectives take what they move over their link; start-up times of
collectives are not known publicly and not in the model, so their range is only upwards. A measured profile has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import GIGA, ORIGINS, SPREAD, TERA, Costs, FigureOrigin, Hardware, Host, Measured
from swapconf.timing.families import FAMILIES, attention_of, family_of, primitive_of, terms
from swapconf.timing.measured import TimeTable, is_between_stages
from swapconf.timing.program import step_tasks
from swapconf.trace.trace import Kernel, Task, Tensor, Trace
from swapconf.trace.work import COLLECTIVES, COPY, FLASH, FLASH_GRAD, VIEWS, Attention, Work, work

_INTEGER = re.compile(r"ValueNode<Int64Imm> (-?\d+)")
_COPIES, _COLLECTIVES = "copies", "collectives"
# what links take over what is told of them: copies came to 0.95 to 1.3 of their rate in public measurements of A2 and
# A3; collectives to the peak of their links where nothing is in the way, and more where cards are not on time
_LINKS: Mapping[str, tuple[float, float]] = {_COPIES: (0.9, 1.3), _COLLECTIVES: (0.4, 1.4)}
# kernels that are fast or slow together
GROUPS: Mapping[str, int] = {
    name: number for number, name in enumerate((*FAMILIES, *_LINKS, *(origin.value for origin in SPREAD)))
}
_CAUSAL_MODES = frozenset({2, 3})  # leftUpCausal and rightDownCausal of flash attention


@dataclass(frozen=True, slots=True)
class Signature:
    """What kernels that take equally long have in common. ``ranks``: of a collective."""

    primitive: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ranks: tuple[int, ...] = ()
    attention: Attention | None = None


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
            signature = Signature(task.primitive, task.input_tensors, task.output_tensors, _ranks(task), attention)
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
    each = [
        work(item.primitive, item.inputs, item.outputs, max(1, len(item.ranks)), item.attention)
        for item in load.signatures
    ]
    return np.array([done.matrix_ops + done.wide_matrix_ops or done.vector_ops for done in each])[load.index]


def costs(load: Workload, hardware: Hardware, host: Host | None = None, measured: Measured | None = None) -> Costs:
    """``measured`` kernels replace the model, or calibrate it where only their type was seen."""
    shared = host or Host()
    known = [_estimate(signature, hardware, shared) for signature in load.signatures]
    estimated = np.array([item.us for item in known], dtype=np.float64)
    duration = estimated[load.index]
    origin = np.array([ORIGINS.index(item.origin) for item in known], dtype=np.uint8)[load.index]
    group = np.array([GROUPS[item.group] for item in known], dtype=np.uint8)[load.index]
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
        (item.primitive, float(time) * int(times), int(times))
        for item, time, times in zip(load.signatures, estimated, launches, strict=True)
    )
    for kernel, (name, which) in enumerate(zip(load.names, load.index.tolist(), strict=True)):
        item = load.signatures[which]
        duration[kernel], found = table.time_us(
            name, item.primitive, item.inputs, item.outputs, float(estimated[which])
        )
        if found is not FigureOrigin.ESTIMATED:
            origin[kernel] = ORIGINS.index(found)
            group[kernel] = GROUPS[found.value]
    for which, item in enumerate(load.signatures):
        if is_between_stages(item.primitive):
            alike = (load.index == which) & (origin == ORIGINS.index(FigureOrigin.MEASURED))
            duration[alike] = duration[alike].min(initial=np.inf)  # the rest of the others was waiting
    return Costs(duration_us=duration, origin=origin, group=group, spread=spread)


def seconds(done: Work, hardware: Hardware, ranks: Sequence[int] = (), host: Host | None = None) -> float:
    """The longest of what a kernel does, at peak rates."""
    value = hardware.value
    products = done.matrix_ops + done.wide_matrix_ops * value("matrix_fp32_slowdown")
    return max(
        products / (value("matrix_tflops") * TERA),
        done.vector_ops / (value("vector_tflops") * TERA),
        done.memory_bytes / (value("memory_gbps") * GIGA),
        done.sent_bytes / (group_gbps(hardware, ranks) * GIGA),
        done.copied_bytes / ((host or Host()).link_gbps(hardware) * GIGA),
    )


def group_gbps(hardware: Hardware, ranks: Sequence[int]) -> float:
    """What one card sends at once in a group: on all links to its peers, or through the network between hosts."""
    cards = hardware.value("cards_per_host")
    if len({rank // cards for rank in ranks}) > 1:
        return hardware.value("network_gbps")
    return hardware.value("peer_link_gbps") * max(1, min(len(ranks) - 1, hardware.value("peer_links")))


@dataclass(frozen=True, slots=True)
class Estimate:
    """``group``: of GROUPS."""

    us: float
    group: str
    origin: FigureOrigin = FigureOrigin.ESTIMATED


def _estimate(signature: Signature, hardware: Hardware, host: Host) -> Estimate:
    primitive, ranks = primitive_of(signature.primitive), signature.ranks
    if primitive in VIEWS:
        return Estimate(0.0, "other")
    attention = signature.attention or attention_of(primitive, signature.inputs)
    done = work(primitive, signature.inputs, signature.outputs, max(1, len(ranks)), attention)
    if primitive == COPY or primitive in COLLECTIVES:
        us = 1e6 * seconds(done, hardware, ranks, host)
        if primitive == COPY:
            return Estimate(us, _COPIES)
        return Estimate(us * hardware.value("collective_slowdown"), _COLLECTIVES)
    family = family_of(primitive, attention, (*signature.inputs, *signature.outputs))
    fit = hardware.fits[family]
    us = fit.time_us(terms(primitive, signature.inputs, signature.outputs, done, hardware))
    return Estimate(us, family, FigureOrigin.CALIBRATED if fit.is_own else FigureOrigin.ESTIMATED)


def _spread(hardware: Hardware) -> tuple[tuple[float, float], ...]:
    """By group."""
    of_families = [(hardware.fits[family].low, hardware.fits[family].high) for family in FAMILIES]
    return (*of_families, *_LINKS.values(), *SPREAD.values())


def _ranks(task: Task) -> tuple[int, ...]:
    told = dict(task.attributes).get("comm_rank", "")
    return tuple(int(rank) for rank in told.split() if rank.isdigit())


def _attention(kernel: Kernel) -> Attention | None:
    """The last arguments are pre_tokens, next_tokens, inner_precise, input_layout and sparse_mode."""
    if kernel.primitive not in (FLASH, FLASH_GRAD):
        return None
    told = [_INTEGER.fullmatch(item) for item in kernel.inputs[-5:]]
    if len(told) < 5 or not all(told):
        return None
    _, following, _, layout, mode = (int(item[1]) for item in told if item)
    return Attention(layout=layout, is_causal=mode in _CAUSAL_MODES or (mode == 0 and following == 0))
