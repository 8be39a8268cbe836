"""Predicted steps against those that were really launched, on the golden traces."""

from __future__ import annotations

import os
import runpy
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swapconf.decide.strategy import Strategy
from swapconf.timing import hardware
from swapconf.timing.cost import Hardware, Machine
from swapconf.timing.costing import costs, operations, workload
from swapconf.timing.program import program
from swapconf.timing.timeline import memory, prefetches, replay
from swapconf.timing.timing import KINDS, KernelKind, Program, Timeline
from swapconf.trace import trace_folder
from swapconf.trace.lifetimes import TICKS
from swapconf.upstream.facts import Versions
from swapconf.whatif.baseline_step import added_operations
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import prediction, schedule
from swapconf.whatif.prepare import prepare
from swapconf.whatif.step_time import Clock, TimedStep, baseline_time, clock, step_time, time
from tests.helpers import EXAMPLE, ROOT, golden, strategy_of

LAYER_SWAP = "swap_config={swap: True, layer_swap: [{backward_prefetch: 1, layers: True}]}"
RECOMPUTE = "recompute_config={recompute: True}"
OFF = "swap_config={swap: False}"


@cache
def strategy(*changes: str) -> Strategy:
    return strategy_of(EXAMPLE, "model.model_config.num_layers=2", *changes)


@cache
def started() -> tuple[PlacedBaseline, Clock]:
    trace = golden("llama_l2_none")
    baseline = prepare(trace)
    return placed(baseline, strategy(OFF).network), clock(trace, baseline, Machine(hardware=card()))


def card() -> Hardware:
    return hardware.load("ascend_910b2")


def predicted(*changes: str) -> TimedStep:
    prepared, pace = started()
    launched = schedule(prepared, strategy(*changes))
    return time(pace, launched, prediction(prepared, launched).moves)


def true(name: str) -> Timeline:
    trace = golden(name)
    return replay(program(trace), costs(workload(trace), card()).duration_us)


def by_kind(step: Program) -> Counter[tuple[str, str]]:
    """How often a kernel of one kind waits for one of another."""
    kinds = np.array([kind.value for kind in KINDS])[step.kind]
    return Counter(zip(kinds[step.waits.waiter].tolist(), kinds[step.waits.awaited].tolist(), strict=True))


def test_whole_layer_swap_waits_for_what_the_true_run_waits_for() -> None:
    found, truth = predicted(LAYER_SWAP).timeline, true("llama_l2_layerswap_n1")
    assert len(found.program) == len(truth.program)
    assert by_kind(found.program) == by_kind(truth.program)
    assert found.step_us == pytest.approx(truth.step_us, rel=0.01)
    assert found.exposed_of(KernelKind.TO_DEVICE) == pytest.approx(truth.exposed_of(KernelKind.TO_DEVICE), rel=0.05)
    assert len(prefetches(found)) == len(prefetches(truth)) == 50


def test_recompute_takes_the_time_of_the_true_run() -> None:
    found, truth = predicted(OFF, RECOMPUTE), true("llama_l2_recompute")
    assert found.timeline.step_us == pytest.approx(truth.step_us, rel=0.006)
    assert found.timeline.busy_us(found.timeline.program.main_stream) == pytest.approx(
        truth.busy_us(truth.program.main_stream), rel=0.001
    )
    names = found.timeline.program.names  # with one micro-batch, casts of weights wait until they are needed
    first = next(index for index, name in enumerate(names) if name.startswith("recompute_") and "Linear/Cast" in name)
    assert first > next(index for index, name in enumerate(names) if "Grad_AllReduce" in name)
    assert found.timeline.step_us > baseline_time(started()[1]).timeline.step_us


@pytest.mark.parametrize("name", ["llama512-l4.recompute", "llama512-l4.select-ffn", "qwen3-l4.recompute@4"])
def test_recompute_in_several_micro_batches_takes_the_time_of_the_true_run(name: str) -> None:
    """What runs right behind the gradient hides the communication less; TensorMove and Receive never run again."""
    folder = Path(os.environ.get("SWAPCONF_TRACES", "")) / name
    if not (folder / "memory_block.csv").exists():
        pytest.skip("SWAPCONF_TRACES names no folder with this trace")
    evidence = runpy.run_path(str(ROOT / "scripts" / "evidence" / "cases.py"))
    case = next(case for case in evidence["cases"]() if case.name == name)
    asked = strategy_of(case.path, *case.changes, versions=Versions.in_use())
    trace = trace_folder.read(folder.parent / case.baseline, rank=0)
    baseline = prepare(trace)
    prepared = placed(baseline, asked.network)
    launched = schedule(prepared, asked)
    found = time(clock(trace, baseline, Machine(hardware=card())), launched, prediction(prepared, launched).moves)
    truth = replay(program(real := trace_folder.read(folder, rank=0)), costs(workload(real), card()).duration_us)
    assert found.timeline.step_us == pytest.approx(truth.step_us, rel=0.001)
    collectives = [(line.program.kind == KINDS.index(KernelKind.COLLECTIVE)).sum() for line in (found.timeline, truth)]
    assert collectives[0] == collectives[1]


def test_nothing_changes_without_swap_and_recompute() -> None:
    found, before = predicted(OFF).timeline, baseline_time(started()[1]).timeline
    assert found.program.names == before.program.names
    assert by_kind(found.program) == by_kind(before.program)
    assert found.step_us == pytest.approx(before.step_us, rel=1e-12)


def test_no_copy_back_starts_before_the_backward_pass() -> None:
    step = predicted(LAYER_SWAP.replace("prefetch: 1", "prefetch: 300")).timeline.program
    last_forward = max(
        index
        for index, name in enumerate(step.names)
        if "layers-CellList" in name
        and name.startswith("Default")
        and not name.endswith("H2D")
        and "/" in name
        and "_norm-LlamaRMSNorm/Cast" not in name
        and "D2H" not in name
    )
    assert np.flatnonzero(step.kind == KINDS.index(KernelKind.TO_DEVICE)).min() > last_forward


def test_recompute_adds_the_operations_of_what_runs_again() -> None:
    prepared, pace = started()
    launched = schedule(prepared, strategy(OFF, RECOMPUTE))
    added = added_operations(pace.step, launched.program.copies)
    again = [name for name in predicted(OFF, RECOMPUTE).timeline.program.names if name.startswith("recompute_")]
    each = dict(zip(pace.step.program.names, operations(pace.step.load).tolist(), strict=True))
    assert added > 0
    assert added == pytest.approx(sum(each[name.removeprefix("recompute_")] for name in again))
    assert added_operations(pace.step, schedule(prepared, strategy(LAYER_SWAP)).program.copies) == 0


def test_times_tell_how_they_are_known() -> None:
    told = step_time(predicted(LAYER_SWAP))
    assert {origin.value: share for origin, share in told.step.share.items()} == {"estimated": 1.0}
    assert told.exposed_copy.us > 0
    assert step_time(baseline_time(started()[1])).exposed_copy.us == 0


def test_the_peak_over_the_clock_is_that_of_the_prediction() -> None:
    prepared, pace = started()
    launched = schedule(prepared, strategy(LAYER_SWAP))
    found = prediction(prepared, launched)
    line = time(pace, launched, found.moves).timeline
    _, used = memory(line, found.device)
    assert used.max() == found.used_peak_bytes
    assert line.program.event.max() // TICKS > 0
