"""Steps of real traces on their streams. Every order is checked against the events in the file itself."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.timing import hardware
from swapconf.timing.cost import Host
from swapconf.timing.costing import costs, workload
from swapconf.timing.program import program, step_tasks
from swapconf.timing.timeline import memory, prefetches, replay, serial
from swapconf.timing.timing import KINDS, TO_DEVICE, TO_HOST, Floats, KernelKind, Program, Timeline
from swapconf.trace import trace_folder
from swapconf.trace.columns import Flags
from swapconf.trace.trace import Trace
from swapconf.trace.trace_folder import order_file
from tests.helpers import TRACES, golden
from tests.unit import event_graph

MORE = os.environ.get("SWAPCONF_TRACES", "")


def found() -> list[Path]:
    """The traces of the project, and those of real training jobs in the folder that SWAPCONF_TRACES names."""
    folders = [*TRACES.iterdir(), *(Path(MORE).iterdir() if MORE else ())]
    return sorted(folder for folder in folders if (folder / "tracker_graph.ir").exists())


ALL = found()
MINE = [folder for folder in ALL if folder.parent == TRACES]
SWAPPED = [folder for folder in MINE if "swap" in folder.name or "flash" in folder.name]


def timed(folder: Path, host: Host | None = None, trace: Trace | None = None) -> Timeline:
    step = trace or golden(folder)
    return replay(program(step), costs(workload(step), hardware.load("ascend_910b2"), host).duration_us)


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_the_order_respects_every_event(folder: Path) -> None:
    """By the graph of events in the file, which is read by other means than the package's."""
    line = timed(folder, trace=trace_folder.read(folder, rank=0))
    nodes = event_graph.read(order_file(folder))
    assert sum(node.is_event for node in nodes) > 20
    assert not event_graph.violations(nodes, line.program.names, line.start_us.tolist(), line.end_us.tolist())


def test_the_check_finds_what_starts_before_its_event() -> None:
    """A copy that starts when its tensor is not there yet, and a step that is longer than it must be."""
    folder = TRACES / "llama_l2_layerswap_n1"
    line, nodes = timed(folder), event_graph.read(order_file(folder))
    copy = int(np.flatnonzero(line.program.kind == TO_HOST)[0])
    start, end = line.start_us.copy(), line.end_us.copy()
    start[copy], end[copy] = start[copy] - 1, end[copy] - 1
    [wrong] = event_graph.violations(nodes, line.program.names, start.tolist(), end.tolist())
    assert "too early" in wrong
    later = np.where(np.arange(len(start)) == line.end_us.argmax(), 1.0, 0.0)
    [wrong] = event_graph.violations(
        nodes, line.program.names, (line.start_us + later).tolist(), (line.end_us + later).tolist()
    )
    assert "longest path" in wrong


@pytest.mark.parametrize("folder", MINE, ids=lambda folder: folder.name)
def test_the_peak_over_the_clock_is_that_of_mindspore(folder: Path) -> None:
    trace = golden(folder)
    at_us, used = memory(timed(folder), lifetimes(trace))
    assert used.max() == trace.used_peak_bytes
    assert (np.diff(at_us) >= 0).all()
    assert at_us[-1] <= timed(folder).step_us


@pytest.mark.parametrize("folder", SWAPPED, ids=lambda folder: folder.name)
def test_every_prefetch_is_found_with_the_tensor_that_it_brings_back(folder: Path) -> None:
    line = timed(folder)
    tasks = step_tasks(golden(folder))
    rooms = prefetches(line)
    assert len(rooms) == (line.program.kind == TO_DEVICE).sum() > 3
    assert len({room.to_host for room in rooms}) == len(rooms)
    for room in rooms:
        assert line.program.kind[room.to_host] == TO_HOST
        assert tasks[room.to_host].input_tensors[0] == tasks[room.kernel].output_tensors[0]
        assert room.later_us >= 0


@pytest.mark.parametrize("folder", SWAPPED, ids=lambda folder: folder.name)
def test_a_tensor_is_held_twice_where_its_blocks_live_at_once(folder: Path) -> None:
    """Each prefetch is moved in the trace to before the release of the forward copy."""
    trace, line = golden(folder), timed(folder)
    tasks = step_tasks(trace)
    device = {block.start: block for block in trace.blocks if not block.on_host}
    for room in prefetches(line):
        forward = device[tasks[room.to_host].inputs[0]]
        assert forward.end is not None
        assert forward.end < device[tasks[room.kernel].outputs[0]].start
        assert room.earlier_us >= 0
        twice = np.where(np.arange(len(line.program)) == room.to_host, tasks[-1].event, line.program.freed)
        [kept] = [
            item
            for item in prefetches(replace(line, program=replace(line.program, freed=twice)))
            if item.kernel == room.kernel
        ]
        assert kept.earlier_us < 0


@pytest.mark.parametrize("folder", SWAPPED, ids=lambda folder: folder.name)
def test_free_copies_cost_nothing_and_slow_ones_cost_their_sum(folder: Path) -> None:
    line = timed(folder)
    is_copy = (line.program.kind == TO_HOST) | (line.program.kind == TO_DEVICE)
    lasting = line.end_us - line.start_us
    free = replay(line.program, np.where(is_copy, 0.0, lasting))
    assert free.exposed_of(KernelKind.TO_HOST) == free.exposed_of(KernelKind.TO_DEVICE) == 0
    assert without(line.program, is_copy, lasting) == pytest.approx(free.step_us, rel=1e-9)
    assert replay(serial(line.program), lasting).step_us == pytest.approx(lasting.sum())


def without(step: Program, is_copy: Flags, lasting: Floats) -> float:
    """The step where copies are handed through: what waits for one waits for all that it waits for."""
    handed: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    end = np.zeros(len(step))
    for kernel in range(len(step)):
        stream = int(step.stream[kernel])
        before = {last[stream]} if stream in last else set()
        waits = {
            real for item in {*step.waits[kernel], *before} for real in (handed[item] if is_copy[item] else {item})
        }
        last[stream] = kernel
        if is_copy[kernel]:
            handed[kernel] = waits
        else:
            end[kernel] = max((end[item] for item in waits), default=0.0) + lasting[kernel]
    return float(end.max())


def test_cards_that_share_a_host_copy_slower_and_never_faster() -> None:
    folder = TRACES / "llama_l2_layerswap_n1"
    alone = timed(folder, Host(cards=1, bandwidth_gbps=40))
    shared = timed(folder, Host(cards=8, bandwidth_gbps=40))
    copies = [index for index, kind in enumerate(KINDS) if kind in (KernelKind.TO_HOST, KernelKind.TO_DEVICE)]
    is_copy = np.isin(alone.program.kind, copies)
    took = [(line.end_us - line.start_us)[is_copy].sum() for line in (alone, shared)]
    assert took[1] / took[0] == pytest.approx(hardware.load("ascend_910b2").value("host_link_gbps") / 5)
    assert shared.step_us > alone.step_us


def test_swap_is_slower_than_none_and_the_same_where_it_costs_nothing() -> None:
    none, swap = timed(TRACES / "llama_l2_none"), timed(TRACES / "llama_l2_layerswap_n1")
    assert none.exposed_of(KernelKind.TO_HOST) == 0
    assert swap.step_us > none.step_us
    assert swap.step_us - swap.exposed_us.sum() == pytest.approx(swap.busy_us(swap.program.main_stream))


def test_a_step_of_32_layers_has_every_kernel_and_every_prefetch() -> None:
    """The step of two layers sixteen times over, with all that stands around them, which is longer than 32 layers."""
    one, copies = golden(TRACES / "llama_l2_layerswap_n1"), 16
    many = replace(
        one,
        kernels=tuple(
            replace(kernel, name=f"{turn}/{kernel.name}", event=kernel.event and f"{turn}.{kernel.event}")
            for turn in range(copies)
            for kernel in one.kernels
        ),
        tasks=tuple(replace(task, name=f"{turn}/{task.name}") for turn in range(copies) for task in one.tasks),
    )
    line = replay(program(many), costs(workload(many), hardware.load("generic")).duration_us)
    assert len(line.program) == copies * len(program(one))
    assert len(prefetches(line)) == copies * 50


def test_a_trace_without_a_graph_is_refused() -> None:
    trace = golden(TRACES / "llama_l2_none")
    bare = Trace(folder=trace.folder, rank=0, blocks=trace.blocks, kernels=trace.kernels, tasks=())
    with pytest.raises(ValueError, match="no graph"):
        program(bare)
