"""Two stages on one clock: who meets whom, how long they wait, and what can be told where a stage is missing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.compare import folders
from swapconf.compare.folders import RankTrace
from swapconf.compare.traced import TimedRun, time_of
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.timing import hardware
from swapconf.timing.cost import Host, Machine
from swapconf.timing.costing import costs, workload
from swapconf.timing.joint import Deadlock, joint_replay
from swapconf.timing.lanes import lanes
from swapconf.timing.meetings import Call, absent, calls, meetings
from swapconf.timing.program import program
from swapconf.timing.schedule import expected_us, micro_end, schedule
from swapconf.timing.timing import COLLECTIVE, COMPUTE, KernelKind, PipelineSchedule
from swapconf.trace import trace_folder
from tests.unit.stage_traces import MICRO_BATCHES, traces, write

MORE = Path(os.environ.get("SWAPCONF_TRACES") or "nowhere")
REAL = sorted(path.name for path in MORE.glob("*") if path.name.split(".")[0].count("-pp") and "@" not in path.name)


def machine() -> Machine:
    return Machine(hardware=hardware.load("ascend_910b2"), host=Host())


def stages(folder: Path) -> dict[int, tuple[RankTrace, ...]]:
    return {rank: tuple(item for item in folders.read(folder) if item.rank == rank) for rank in (0, 4)}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write(tmp_path / "job")


def test_every_message_meets_the_one_that_it_belongs_to(job: Path) -> None:
    found = traces(job)
    names = [program(trace).names for trace in found.values()]
    pairs = {
        tuple(names[which][kernel] for which, kernel in meeting)
        for meeting in meetings({rank: calls(trace, rank) for rank, trace in found.items()})
    }
    norm = "Default/network-Net/clip_grad_norm-ClipGradNorm/AllReduce-op0"
    assert pairs == {
        (norm, norm),
        *(
            pair
            for micro in range(MICRO_BATCHES)
            for pair in (
                (f"Default/Send-op{micro}", f"Default/Receive-op{micro}"),
                (f"Gradients/Default/Grad_Send/Receive-op{micro}", f"Gradients/Default/Grad_Receive/Send-op{micro}"),
            )
        ),
    }


def test_the_step_is_the_one_reckoned_by_hand(job: Path) -> None:
    """With messages of 3, forward of 5 and backward of 7 on both stages; the second stage sets the pace."""
    found = traces(job)
    steps = [program(trace) for trace in found.values()]
    durations = [
        np.array(
            [
                3.0 if kind == COLLECTIVE else 7.0 if name.startswith("Gradients/") else 5.0
                for name, kind in zip(step.names, step.kind, strict=True)
            ]
        )
        for step in steps
    ]
    met = meetings({rank: calls(trace, rank) for rank, trace in found.items()})
    joint = joint_replay([0, 4], steps, durations, met)
    # F 5, send 3, then three times forward and backward 12 with the gradient back 3, in between the next one 3 to go;
    # the last backward pass of stage 0, the norm, and the optimizer
    assert joint.step_us == 5 + 3 + 3 * (12 + 3) + 2 * 3 + 7 + 3 + 5
    first, second = joint.ranks
    assert second.bubbles_us.tolist() == [[0, 5], [56, 66]]
    assert first.bubbles_us.tolist() == [[10, 20], [35, 38], [48, 56]]
    assert first.timeline.exposed_of(KernelKind.COLLECTIVE) + first.bubble_us + first.busy_us == joint.step_us


def test_traces_that_do_not_belong_together_are_refused(job: Path) -> None:
    found = traces(job)
    made = {rank: calls(trace, rank) for rank, trace in found.items()}
    with pytest.raises(ValueError, match="from rank 0 to rank 4 is exchanged by rank 0 2 times, rank 4 3 times"):
        meetings({**made, 0: [call for call in made[0] if call.kernel != 1]})
    with pytest.raises(ValueError, match="two of the traces are of the same rank"):
        time_of([*stages(job)[0], *stages(job)[0]], machine())


def test_stages_that_would_hang_say_so(job: Path) -> None:
    """The first message of stage 1 becomes its second: each waits for what the other sends later."""
    found = traces(job)
    steps = [program(trace) for trace in found.values()]
    met = list(meetings({rank: calls(trace, rank) for rank, trace in found.items()}))
    (first, one), (second, other) = met[:2]
    assert (first[0], second[0]) == (0, 0)
    crossed = [(first, other), (second, one), *met[2:]]
    with pytest.raises(Deadlock, match=r"in a circle and would hang: .*Send-op"):
        joint_replay([0, 4], steps, [np.ones(len(step)) for step in steps], crossed)


def test_a_missing_stage_is_named_and_taken_to_be_on_time(job: Path) -> None:
    whole, alone = time_of(folders.read(job), machine()), time_of(stages(job)[0], machine())
    assert absent({0: calls(traces(job)[0], 0)}) == (4,)
    assert alone.joint.absent == (4,)
    assert alone.pipeline is None
    assert alone.joint.step_us < whole.joint.step_us
    assert not whole.joint.absent


def test_a_slower_stage_is_imbalance_for_itself_and_bubbles_for_the_other(tmp_path: Path, job: Path) -> None:
    def timed(folder: Path) -> TimedRun:
        return time_of(folders.read(folder), machine())

    even, odd = timed(job), timed(write(tmp_path / "odd", first_layer_side=4096))
    assert odd.pipeline is not None
    assert even.pipeline is not None
    assert odd.pipeline.imbalance > 0.2 > even.pipeline.imbalance
    assert odd.joint.ranks[1].bubble_us > 1.2 * even.joint.ranks[1].bubble_us
    assert odd.pipeline.schedule == PipelineSchedule(num_stages=2, num_micro_batches=MICRO_BATCHES)
    assert odd.pipeline.formula_us < odd.joint.step_us


def test_memory_is_there_from_the_start_even_where_the_stage_waits(job: Path) -> None:
    [_, item] = folders.read(job)
    line = time_of(folders.read(job), machine()).joint.ranks[1]
    shown = lanes(line, 1, lifetimes(item.trace))
    assert line.bubbles_us[0, 1] > 0
    assert shown.memory_us[0] == 0
    assert shown.memory_bytes.max() == item.trace.used_peak_bytes
    assert (shown.staller_kind == COLLECTIVE).all()


@pytest.mark.skipif(not REAL, reason="SWAPCONF_TRACES names no folder with traces of pipelines")
@pytest.mark.parametrize("name", REAL)
def test_real_pipelines_that_only_compute_take_what_the_formula_says(name: str) -> None:
    """Within 1 %: MindSpore's own order of 1F1B, with and without interleave."""
    places = [MORE / name, *sorted(MORE.glob(f"{name}@*"))]
    ranks = [int(place.name.partition("@")[2] or 0) for place in places]
    found = {rank: trace_folder.read(place, rank) for rank, place in zip(ranks, places, strict=True)}
    made = {rank: calls(trace, rank) for rank, trace in found.items()}
    if absent(made):
        pytest.skip("not all stages are there")
    steps = [program(trace) for trace in found.values()]
    durations = [
        np.where(step.kind != COMPUTE, 0.0, costs(workload(trace), machine().hardware).duration_us)
        for step, trace in zip(steps, found.values(), strict=True)
    ]
    plan = schedule(made)
    assert plan is not None
    assert plan.num_chunks == (2 if "interleave" in name else 1)
    expected = expected_us(plan, steps, durations, list(made.values()))
    assert joint_replay(ranks, steps, durations, meetings(made)).step_us == pytest.approx(expected, rel=0.015)


@pytest.mark.parametrize(("micro_batches", "chunks"), [(4, 1), (4, 2), (6, 3)])
def test_the_cut_of_a_pipeline_is_read_off_the_messages_of_its_first_stage(micro_batches: int, chunks: int) -> None:
    """It sends all parts of all micro-batches, and gets back all but the first parts."""

    def message(sender: int, is_gradient: bool) -> Call:
        return Call(0, ("pp", str(sender), str(4 - sender)), frozenset({0, 4}), is_gradient)

    forward = [message(0, False)] * (micro_batches * chunks) + [message(4, False)] * (micro_batches * (chunks - 1))
    backward = [message(4 - call.sender, True) for call in forward]
    assert schedule({0: [*forward, *backward], 4: []}) == PipelineSchedule(
        num_stages=2, num_micro_batches=micro_batches, num_chunks=chunks
    )
    assert schedule({0: [*forward, *backward]}) is None
    assert schedule({0: [Call(0, ("norm",), frozenset({0, 4}))], 4: []}) is None


def test_the_last_micro_batch_ends_before_gradients_are_added_up(job: Path) -> None:
    step = program(traces(job)[0])
    assert step.names[micro_end(step)].endswith(f"MatMul-op{MICRO_BATCHES - 1}")
    assert micro_end(replace(step, names=("",) * len(step))) == -1
