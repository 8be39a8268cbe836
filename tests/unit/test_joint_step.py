"""When each kernel of several ranks ends: the fast way gives what the general replay gives, to the last bit of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.timing import joint_step
from swapconf.timing.joint import Deadlock, joint_replay
from swapconf.timing.joint_step import joint_ends_us
from swapconf.timing.meetings import Meeting
from swapconf.timing.timing import Floats, PipelineSchedule, Program
from tests.laws.test_joint_timeline import jobs, pipeline, plain, plans
from tests.laws.test_timeline import programs

Job = tuple[list[Program], list[Floats], tuple[Meeting, ...]]


@st.composite
def jobs_in_any_order(draw: st.DrawFn) -> Job:
    """Ranks that meet some, all or none of the others, each in an order of its own, so that some hang."""
    made = draw(st.lists(programs(max_kernels=8), min_size=2, max_size=4))
    left = [list(draw(st.permutations(range(len(program))))) for program, _ in made]
    meetings = []
    for _ in range(draw(st.integers(0, 5))):
        free = [rank for rank, kernels in enumerate(left) if kernels]
        if len(free) < 2:
            break
        who = draw(st.lists(st.sampled_from(free), min_size=2, max_size=len(free), unique=True))
        meetings.append(tuple((rank, left[rank].pop()) for rank in who))
    return [program for program, _ in made], [duration for _, duration in made], tuple(meetings)


def ends(job: Job) -> list[list[float]] | str:
    try:
        return [line.timeline.end_us.tolist() for line in joint_replay(range(len(job[0])), *job).ranks]
    except Deadlock as error:
        return str(error)


def fast(job: Job) -> list[list[float]] | str:
    try:
        return [found.tolist() for found in joint_ends_us(*job)]
    except Deadlock as error:
        return str(error)


@given(jobs())
def test_ranks_that_meet_in_order_end_when_the_replay_says(job: Job) -> None:
    assert fast(job) == ends(job)


@given(jobs_in_any_order())
def test_ranks_that_meet_in_any_order_end_when_the_replay_says_or_hang_with_the_same_words(job: Job) -> None:
    assert fast(job) == ends(job)


@given(plans(), st.integers(1, 20), st.integers(1, 20), st.integers(0, 5))
def test_pipelines_end_when_the_replay_says(plan: PipelineSchedule, forward: int, backward: int, transfer: int) -> None:
    job = pipeline(plan, [forward] * plan.num_stages, [backward] * plan.num_stages, transfer)
    assert fast(job) == ends(job)


CROSSING: Job = (
    [plain([1, 2], [(), ()]), plain([1, 2], [(), ()])],
    [np.array([2.0, 3.0]), np.array([5.0, 1.0])],
    (((0, 0), (1, 1)), ((0, 1), (1, 0))),
)


def test_where_the_order_of_launches_leads_nowhere_the_general_replay_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank launches first what the other launches last, on streams of their own."""
    asked = []

    def replay(*job: object) -> object:
        asked.append(job)
        return joint_replay(*job)  # type: ignore[arg-type]

    monkeypatch.setattr(joint_step, "joint_replay", replay)
    assert fast(CROSSING) == [[2.0, 5.0], [5.0, 2.0]]
    assert len(asked) == 1


def test_the_general_replay_is_not_asked_where_the_order_of_launches_leads_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(joint_step, "joint_replay")
    job = ([CROSSING[0][0], CROSSING[0][1]], CROSSING[1], (((0, 0), (1, 0)), ((0, 1), (1, 1))))
    assert fast(job) == [[5.0, 3.0], [5.0, 3.0]]


def test_durations_that_were_given_stay_as_they_are() -> None:
    durations = [np.array([2.0]), np.array([7.0])]
    joint_ends_us([plain([0], [()]), plain([0], [()])], durations, (((0, 0), (1, 0)),))
    assert [duration.tolist() for duration in durations] == [[2.0], [7.0]]
