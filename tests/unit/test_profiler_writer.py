"""The profiler's files of a simulated step: by the published rules, and read back to the same figures."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.memory.with_workspace import grow
from swapconf.profile import (
    memory_record,
    operator_memory,
    profiler_folder,
    profiler_tables,
    profiler_writer,
    trace_view_writer,
)
from swapconf.profile.simulated import step_profile
from swapconf.profile.step_profile import StepProfile, length_ns
from swapconf.timing import costing, hardware, program, timeline
from swapconf.timing.calibration import calibrated
from swapconf.timing.cost import ORIGINS, Costs, FigureOrigin
from swapconf.timing.seen import LEAST_US
from swapconf.timing.timing import COLLECTIVE, COMPUTE, TO_DEVICE, TO_HOST, Timeline
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Trace
from tests.helpers import NAMES, golden
from tests.unit.trace_event_rules import loads, mistakes

SWAP = "llama_l2_layerswap_n1"
CARD = "ascend_910b2"


@cache
def simulated(name: str) -> tuple[Trace, Costs, Timeline, StepProfile]:
    grown = grow(golden(name))
    trace, card = grown.trace, hardware.load(CARD)
    known = costing.costs(costing.workload(trace), card)
    line = timeline.replay(program.program(trace), known.duration_us)
    return trace, known, line, step_profile(trace, line, known, card.name, grown.reserved_bytes)


def profile(name: str) -> StepProfile:
    return simulated(name)[-1]


@cache
def view(name: str) -> list[dict[str, Any]]:
    return loads(trace_view_writer.text(profile(name)))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return profiler_writer.write(profile(SWAP), tmp_path, datetime(2026, 1, 2, 3, 4, 5, 678901))


# --- trace_view.json --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_view_keeps_the_published_rules(name: str) -> None:
    assert mistakes(view(name)) == []


@pytest.mark.parametrize(
    ("phase", "change", "told"),
    [
        ("X", {"dur": -1}, "not valid"),
        ("X", {"dur": None}, "not valid"),
        ("X", {"ts": "0.1"}, "not of type"),
        ("X", {"pid": 99}, "has no name"),
        ("C", {"args": {"weights": "many"}}, "not valid"),
        ("M", {"args": {}}, "not valid"),
        ("f", {"id": "none"}, "does not end"),
        ("f", {"ts": 0}, "does not end"),
        ("s", {"tid": 77}, "no slice"),
    ],
)
def test_the_rules_find_what_breaks_them(phase: str, change: dict[str, Any], told: str) -> None:
    assert any(told in text for text in mistakes(_changed(lambda event: event["ph"] == phase, change)))


def test_the_rules_find_slices_that_overlap() -> None:
    first, second, *_ = [event for event in view(SWAP) if event["ph"] == "X" and event["name"] == "MatMul"]
    reaching = second["ts"] + second["dur"] / 2 - first["ts"]
    assert any("overlap" in text for text in mistakes(_changed(lambda event: event == first, {"dur": reaching})))


@pytest.mark.parametrize("name", NAMES)
def test_a_step_that_its_own_profile_calibrates_takes_as_long_by_its_shapes_alone(name: str, tmp_path: Path) -> None:
    """What computes is found as measured, though a hardware file knows no names of launches."""
    trace, known, _, shown = simulated(name)
    measured = profiler_folder.read(profiler_writer.write(shown, tmp_path, datetime(2026, 1, 2)))
    card = hardware.load(CARD)
    own = calibrated(measured.kernels, (), card, "itself").on(card)
    found = costing.costs(costing.workload(trace), own)
    computing = program.program(trace).kind == COMPUTE
    timed = np.flatnonzero(computing & (known.duration_us >= LEAST_US))
    assert found.of(timed).share(FigureOrigin.MEASURED) == pytest.approx(1.0)
    assert found.duration_us[timed] == pytest.approx(known.duration_us[timed], abs=0.001)


def _changed(which: Callable[[dict[str, Any]], bool], change: dict[str, Any]) -> list[dict[str, Any]]:
    """The view with its first such event changed."""
    events = [dict(event) for event in view(SWAP)]
    next(event for event in events if which(event)).update(change)
    return events


def test_layers_and_threads_are_those_of_the_profiler() -> None:
    layers = {event["args"]["name"] for event in view(SWAP) if event["name"] == "process_name"}
    assert layers == {"Ascend Hardware", "HCCL", "Overlap Analysis", "NPU MEM"}
    threads = {event["args"]["name"] for event in view(SWAP) if event["name"] == "thread_name"}
    assert threads >= {"Stream 0", "Computing", "Communication", "Communication(Not Overlapped)", "Free"}


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_that_takes_time_is_drawn_when_it_runs(name: str) -> None:
    found = profile(name)
    drawn = {
        (event["args"]["mindspore_op"], event["args"]["Stream Id"]): (event["ts"] * 1000, event["dur"] * 1000)
        for event in view(name)
        if event["ph"] == "X" and "mindspore_op" in event["args"]
    }
    wanted = {
        (found.program.names[kernel], int(found.program.stream[kernel])): (start, end - start)
        for kernel, (start, end) in enumerate(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True))
        if end > start
    }
    assert drawn == wanted


def test_copies_and_collectives_are_told_as_msprof_tells_them() -> None:
    events = [event for event in view(SWAP) if event["ph"] == "X"]
    copies = [event["args"] for event in events if "size(B)" in event["args"]]
    assert {args["operation"] for args in copies} == {"device to host", "host to device"}
    found = profile(SWAP)
    is_copy = np.isin(found.program.kind, (TO_HOST, TO_DEVICE)) & (found.end_ns > found.start_ns)
    assert len(copies) == is_copy.sum() > 90
    assert sum(event["name"].startswith("hcom_allReduce_") for event in events) == sum(
        task.primitive == "AllReduce" for task in profile(SWAP).tasks
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_counter_follows_the_memory_of_the_timeline(name: str) -> None:
    trace, _, line, found = simulated(name)
    _, used = timeline.memory(line, lifetimes(trace))
    sums = [sum(event["args"].values()) for event in view(name) if event["ph"] == "C"]
    assert max(sums) == used.max() == found.used_bytes.max()
    assert sums[-1] == used[-1]


def test_a_wait_leads_from_what_ended_last() -> None:
    found = profile(SWAP)
    flows = [event for event in view(SWAP) if event["ph"] == "f"]
    assert flows
    for event in flows:
        kernel = int(event["id"])
        cause = int(found.cause[kernel])
        assert found.end_ns[cause] == found.start_ns[kernel] == event["ts"] * 1000
        assert found.program.stream[cause] != found.program.stream[kernel]


# --- read back --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_gives_the_same_step_when_it_is_read_as_a_measured_profile(name: str, tmp_path: Path) -> None:
    trace, known, line, found = simulated(name)
    measured = profiler_folder.read(profiler_writer.write(found, tmp_path, datetime(2026, 1, 1)))
    load = costing.workload(trace)
    again = costing.costs(load, hardware.load("generic"), measured=measured)  # another card: nothing may be estimated
    takes_time = found.end_ns > found.start_ns
    assert np.abs(again.duration_us - known.duration_us)[takes_time].max() <= 0.001
    assert {ORIGINS[code] for code in again.origin[takes_time]} == {FigureOrigin.MEASURED}
    assert timeline.replay(line.program, again.duration_us).step_us == pytest.approx(line.step_us, rel=1e-4)


def test_memory_is_read_back_to_the_byte(output: Path) -> None:
    trace, _, line, found = simulated(SWAP)
    (curve,) = memory_record.read(output / "memory_record.csv")
    assert curve.component == "MindSpore"
    assert curve.time_ns.tolist() == found.memory_ns.tolist()
    assert curve.allocated_bytes.tolist() == found.used_bytes.tolist()
    assert curve.reserved_peak_bytes == found.reserved_bytes
    table = operator_memory.read(output / "operator_memory.csv")
    _, used = timeline.memory(line, lifetimes(trace))
    assert table.allocated_bytes.max() == used.max()
    assert table.size_bytes.tolist() == found.allocations.size_bytes.tolist()
    assert table.start_ns.tolist() == found.allocations.start_ns.tolist()
    assert table.end_ns.tolist() == found.allocations.end_ns.tolist()
    assert [table.names[code] for code in table.name] == list(found.allocations.name)
    assert (table.end_ns == NEVER).sum() > 10


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_a_step_add_up(name: str) -> None:
    (row,) = csv.DictReader(profiler_tables.step_trace_time(profile(name)).splitlines())
    part = {key: Decimal(text) for key, text in row.items()}
    assert (
        part["Computing"] + part["Communication(Not Overlapped)"] + part["Free"]
        == Decimal(profile(name).step_ns) / 1000
    )
    assert part["Overlapped"] + part["Communication(Not Overlapped)"] == part["Communication"]
    assert part["Stage"] + part["Bubble"] > 0


def test_overlap_by_hand() -> None:
    found = profile(SWAP)
    covered = np.zeros((3, found.step_ns), dtype=np.bool_)
    for kernel, kind in enumerate(found.program.kind.tolist()):
        row = {COMPUTE: 0, COLLECTIVE: 1, TO_HOST: 2, TO_DEVICE: 2}[kind]
        covered[row, found.start_ns[kernel] : found.end_ns[kernel]] = True
    assert length_ns(found.computing) == covered[0].sum()
    assert length_ns(found.only_communicating) == (covered[1] & ~covered[0]).sum()
    assert length_ns(found.free) == (~covered[0] & ~covered[1]).sum()


def test_the_folder_has_the_names_of_the_profiler(output: Path) -> None:
    assert output.name == "ASCEND_PROFILER_OUTPUT"
    assert output.parent.name == "swapconf-rank0_20260102030405678_ascend_ms"
    assert {path.name for path in output.iterdir()} == {
        "trace_view.json",
        "kernel_details.csv",
        "operator_memory.csv",
        "memory_record.csv",
        "step_trace_time.csv",
    }
    told = json.loads((output.parent / "profiler_metadata.json").read_text())
    assert told["swapconf"] == "simulated, not profiled"
