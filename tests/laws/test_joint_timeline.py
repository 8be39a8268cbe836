"""What holds of every joint timeline, whoever waits for whom; and that 1F1B takes what its formula says."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.timing.joint import Deadlock, joint_replay
from swapconf.timing.meetings import Meeting
from swapconf.timing.timeline import replay
from swapconf.timing.timing import COLLECTIVE, COMPUTE, Floats, JointTimeline, PipelineSchedule, Program, Waits
from tests.laws.test_timeline import edges, programs, unfreed


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[Program], list[Floats], tuple[Meeting, ...]]:
    """Up to three ranks that meet in the order in which each of them launches the kernels."""
    made = draw(st.lists(programs(max_kernels=10), min_size=1, max_size=3))
    count = draw(st.integers(0, min(len(program) for program, _ in made)))
    chosen = [sorted(draw(st.permutations(range(len(program))))[:count]) for program, _ in made]
    meetings = tuple(tuple((rank, kernels[turn]) for rank, kernels in enumerate(chosen)) for turn in range(count))
    return [program for program, _ in made], [duration for _, duration in made], meetings if len(made) > 1 else ()


def replayed(job: tuple[list[Program], list[Floats], tuple[Meeting, ...]]) -> JointTimeline:
    return joint_replay(range(len(job[0])), *job)


@given(jobs())
def test_no_kernel_starts_before_what_it_waits_for_and_meetings_are_together(
    job: tuple[list[Program], list[Floats], tuple[Meeting, ...]],
) -> None:
    made, durations, meetings = job
    lines = [line.timeline for line in replayed(job).ranks]
    for program, line, duration in zip(made, lines, durations, strict=True):
        assert all(line.end_us[earlier] <= line.start_us[later] for earlier, later in edges(program))
        assert (line.end_us - line.start_us >= duration).all()
    for meeting in meetings:
        assert len({(lines[rank].start_us[kernel], lines[rank].end_us[kernel]) for rank, kernel in meeting}) == 1


@given(jobs())
def test_others_never_make_a_rank_faster(job: tuple[list[Program], list[Floats], tuple[Meeting, ...]]) -> None:
    for line, program, duration in zip(replayed(job).ranks, *job[:2], strict=True):
        assert (line.timeline.start_us >= replay(program, duration).start_us).all()


@given(jobs())
def test_every_rank_works_or_stands_still_because_of_something(
    job: tuple[list[Program], list[Floats], tuple[Meeting, ...]],
) -> None:
    joint = replayed(job)
    for line in joint.ranks:
        assert line.busy_us + line.timeline.exposed_us.sum() + line.bubble_us == joint.step_us
        assert (np.diff(line.bubbles_us.ravel()) >= 0).all()
        assert (line.ready_us <= line.timeline.start_us).all()


@given(programs())
def test_a_rank_that_meets_nobody_is_as_it_is_alone(made: tuple[Program, Floats]) -> None:
    program, duration = made
    [line] = joint_replay([7], [program], [duration], ()).ranks
    alone = replay(program, duration)
    assert (line.timeline.start_us == alone.start_us).all()
    assert (line.timeline.exposed_us == alone.exposed_us).all()
    assert line.bubble_us == 0


@given(jobs(), st.integers(0, 2), st.integers(0, 9), st.integers(1, 20))
def test_a_longer_kernel_or_transfer_never_makes_the_step_shorter(
    job: tuple[list[Program], list[Floats], tuple[Meeting, ...]], rank: int, kernel: int, more: int
) -> None:
    made, durations, meetings = job
    longer = [duration.copy() for duration in durations]
    longer[rank % len(made)][kernel % len(made[rank % len(made)])] += more
    assert 0 <= replayed((made, longer, meetings)).step_us - replayed(job).step_us <= more


def plain(streams: list[int], waits: list[tuple[int, ...]], names: list[str] | None = None) -> Program:
    return Program(
        names=tuple(names or map(str, range(len(streams)))),
        stream=np.array(streams, dtype=np.int32),
        kind=np.array([COLLECTIVE if stream else COMPUTE for stream in streams], dtype=np.uint8),
        waits=Waits.of_rows(waits),
        event=np.arange(len(streams)),
        freed=unfreed(len(streams)),
    )


def test_two_ranks_that_call_in_another_order_hang_on_one_stream_only() -> None:
    meetings = (((0, 0), (1, 1)), ((0, 1), (1, 0)))
    taken = [np.ones(2), np.ones(2)]
    with pytest.raises(Deadlock, match=r"would hang: .*a/Send-op0 \(trace 1\)"):
        joint_replay(
            [0, 4], [plain([1, 1], [(), ()], ["a/Send-op0", "a/Send-op1"]), plain([1, 1], [(), ()])], taken, meetings
        )
    assert joint_replay([0, 4], [plain([1, 2], [(), ()]), plain([1, 2], [(), ()])], taken, meetings).step_us == 1


# --- 1F1B -----------------------------------------------------------------------------------------------------------

# what a stage computes: (is backward, chunk, micro-batch)
Work = tuple[bool, int, int]


def one_f_one_b(stage: int, plan: PipelineSchedule) -> list[Work]:
    """The order of Narayanan et al. 2021: some forward passes, then one of each in turn, then what is left."""
    stages, chunks = plan.num_stages, plan.num_chunks
    total = plan.num_micro_batches * chunks

    def turn(index: int, backward: bool) -> Work:
        chunk, micro = index % (stages * chunks) // stages, index // (stages * chunks) * stages + index % stages
        return backward, chunks - 1 - chunk if backward else chunk, micro

    if chunks == 1:
        warm_up = min(stages - stage - 1, total)
        forward, backward = ([(kind, 0, micro) for micro in range(total)] for kind in (False, True))
    else:
        warm_up = min(2 * (stages - stage - 1) + (chunks - 1) * stages, total)
        forward, backward = ([turn(index, kind) for index in range(total)] for kind in (False, True))
    mixed = [item for pair in zip(forward[warm_up:], backward, strict=False) for item in pair]
    return [*forward[:warm_up], *mixed, *backward[total - warm_up :]]


def pipeline(
    plan: PipelineSchedule, forward_us: list[int], backward_us: list[int], transfer_us: int
) -> tuple[list[Program], list[Floats], tuple[Meeting, ...]]:
    """``forward_us``, ``backward_us``: of one chunk, by stage. Each kind of message has a stream of its own."""
    last, chunks = plan.num_stages - 1, plan.num_chunks
    made, durations = [], []
    ends: dict[tuple[int, Work], list[tuple[int, int]]] = defaultdict(list)
    for stage in range(plan.num_stages):
        streams: list[int] = []
        waits: list[tuple[int, ...]] = []
        lasting: list[int] = []

        def add(
            stream: int,
            awaited: tuple[int, ...],
            duration: int,
            *,
            streams: list[int] = streams,
            waits: list[tuple[int, ...]] = waits,
            lasting: list[int] = lasting,
        ) -> int:
            streams.append(stream)
            waits.append(awaited)
            lasting.append(duration)
            return len(streams) - 1

        for backward, chunk, micro in one_f_one_b(stage, plan):
            position = chunk * plan.num_stages + stage  # among all parts of the model
            awaited: tuple[int, ...] = ()
            if position < chunks * plan.num_stages - 1 if backward else position > 0:
                awaited = (add(3 if backward else 1, (), transfer_us),)
                ends[position, (backward, 0, micro)].append((stage, awaited[0]))
            done = add(0, awaited, (backward_us if backward else forward_us)[stage])
            onward = position - 1 if backward else position + 1
            if 0 <= onward < chunks * (last + 1):
                ends[onward, (backward, 0, micro)].append((stage, add(4 if backward else 2, (done,), transfer_us)))
        made.append(plain(streams, waits))
        durations.append(np.array(lasting, dtype=np.float64))
    assert all(len(pair) == 2 for pair in ends.values())
    return made, durations, tuple(map(tuple, ends.values()))


@st.composite
def plans(draw: st.DrawFn) -> PipelineSchedule:
    stages, chunks = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    rounds = draw(st.integers(1, 3))
    return PipelineSchedule(num_stages=stages, num_chunks=chunks, num_micro_batches=stages * rounds)


@given(plans(), st.integers(1, 20), st.integers(1, 20))
def test_equal_stages_without_communication_take_what_the_formula_says(
    plan: PipelineSchedule, forward: int, backward: int
) -> None:
    """The formulas are written out here: (m + p - 1)(tf + tb), and with an interleave a v-th of the bubble."""
    job = pipeline(plan, [forward] * plan.num_stages, [backward] * plan.num_stages, 0)
    whole = plan.num_chunks * (forward + backward)
    bubble = Fraction((plan.num_stages - 1) * whole, plan.num_chunks)
    joint = replayed(job)
    assert joint.step_us == plan.num_micro_batches * whole + bubble == plan.step_us([whole] * plan.num_stages)
    assert [line.bubble_us for line in joint.ranks] == [bubble] * plan.num_stages
    assert joint.imbalance == 0


@given(plans(), st.data())
def test_unequal_stages_take_no_less_than_the_formula_and_transfers_only_add(
    plan: PipelineSchedule, data: st.DataObject
) -> None:
    times = st.lists(st.integers(1, 20), min_size=plan.num_stages, max_size=plan.num_stages)
    forward, backward = data.draw(times), data.draw(times)
    free = replayed(pipeline(plan, forward, backward, 0))
    assert free.step_us >= plan.step_us([plan.num_chunks * sum(pair) for pair in zip(forward, backward, strict=True)])
    assert replayed(pipeline(plan, forward, backward, data.draw(st.integers(1, 5)))).step_us >= free.step_us
