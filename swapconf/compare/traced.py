"""TRACES OF A RUN -> VARIANT: what each rank holds, and how long the ranks take together."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from swapconf.compare.folders import RankTrace
from swapconf.compare.variant import ComparedFigure, PipelineFigures, RankFigures, Variant
from swapconf.dryrun.effect.effect import observed
from swapconf.dryrun.outcome import RankOutcome
from swapconf.memory import holders
from swapconf.memory.peak import Peak
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.memory.view import of_trace
from swapconf.study.beside import beside
from swapconf.timing.cost import Costs, FigureOrigin, Machine
from swapconf.timing.costing import costs, workload
from swapconf.timing.joint import joint_replay
from swapconf.timing.lanes import lanes
from swapconf.timing.meetings import Call, absent, calls, meetings
from swapconf.timing.program import program
from swapconf.timing.recomputed import recomputed
from swapconf.timing.schedule import expected_us, schedule
from swapconf.timing.timeline_view import TimelineView
from swapconf.timing.timing import JointTimeline, KernelKind, Program
from swapconf.trace import run_record
from swapconf.trace.lifetimes import Lifetimes
from swapconf.words.phrases import joined, phrase

TIMES = (ComparedFigure.STEP, ComparedFigure.EXPOSED_COPIES, ComparedFigure.EXPOSED_COLLECTIVES, ComparedFigure.BUBBLE)
AGAIN = (ComparedFigure.RECOMPUTED_KERNELS, ComparedFigure.RECOMPUTED_OPERATIONS)
RECORDED = phrase("as recorded in the traces")


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """One step of several ranks.

    Attributes:
        pipeline: None where it has no stages.
        origin: How the times are known.
    """

    joint: JointTimeline
    origin: str
    pipeline: PipelineFigures | None = None

    @property
    def figures(self) -> dict[int, dict[ComparedFigure, float]]:
        """By rank."""
        return {
            line.rank: {
                ComparedFigure.STEP: self.joint.step_us,
                ComparedFigure.BUBBLE: line.bubble_us,
                ComparedFigure.EXPOSED_COLLECTIVES: line.timeline.exposed_of(KernelKind.COLLECTIVE),
                ComparedFigure.EXPOSED_COPIES: line.timeline.exposed_of(KernelKind.TO_HOST)
                + line.timeline.exposed_of(KernelKind.TO_DEVICE),
            }
            for line in self.joint.ranks
        }

    @property
    def notes(self) -> tuple[str, ...]:
        return _missing(self.joint)

    def picture(self, title: str, ranks: Sequence[RankTrace], live: Sequence[Lifetimes]) -> TimelineView:
        """``live``: by rank, with times as in the events of its program."""
        return TimelineView(
            title=title,
            origin=self.origin,
            step_us=self.joint.step_us,
            notes=self.notes,
            ranks=tuple(
                lanes(line, item.stage, blocks)
                for line, item, blocks in zip(self.joint.ranks, ranks, live, strict=True)
            ),
        )


def of_traces(title: str, ranks: Sequence[RankTrace], machine: Machine, policy: str = "mindspore") -> Variant:
    """Memory is that of the traces. What needs the tracker's graph is missing where there is none, and why is said."""
    memory = {item.rank: _memory(item, machine) for item in ranks}
    peaks = {item.rank: holders.peak(item.trace) for item in ranks}
    origins = {"memory": joined(", ", dict.fromkeys(run_record.origin(item.report) or RECORDED for item in ranks))}
    found = Variant(
        title=title,
        origins=origins,
        troubles=_troubles(ranks),
        views=tuple(
            of_trace(
                item.trace,
                title=_title(title, item, ranks),
                origin=origins["memory"],
                reported=item.pool,
                policy=policy,
            )
            for item in ranks
        ),
    )
    try:
        timed = time_of(ranks, machine)
        again = {item.rank: recomputed(item.trace.opened.trace) for item in ranks}
    except ValueError as error:
        return replace(
            found, unknown=dict.fromkeys((*TIMES, *AGAIN), str(error)), ranks=rank_figures(ranks, memory, peaks)
        )
    for item in ranks:
        memory[item.rank] |= timed.figures[item.rank] | {
            ComparedFigure.RECOMPUTED_KERNELS: again[item.rank].kernels,
            ComparedFigure.RECOMPUTED_OPERATIONS: again[item.rank].operations,
        }
    return replace(
        found,
        origins={**origins, "time": timed.origin},
        ranks=rank_figures(ranks, memory, peaks),
        notes=timed.notes,
        pipeline=timed.pipeline,
        timeline=timed.picture(title, ranks, [lifetimes(item.trace) for item in ranks]),
    )


def time_of(ranks: Sequence[RankTrace], machine: Machine) -> TimedRun:
    """The joint step as it was run. Raises ValueError where a trace has no graph, the traces are not of one job, or the
    ranks would hang."""
    by_rank = {item.rank: calls(item.trace, item.rank) for item in ranks}
    if len(by_rank) < len(ranks):
        raise ValueError(phrase("two of the traces are of the same rank"))
    known = [costs(workload(item.trace), machine.hardware, machine.host, machine.measured) for item in ranks]
    return together(ranks, [program(item.trace) for item in ranks], known, by_rank, machine)


def together(
    ranks: Sequence[RankTrace],
    programs: Sequence[Program],
    known: Sequence[Costs],
    by_rank: Mapping[int, Sequence[Call]],
    machine: Machine,
) -> TimedRun:
    """Programs of several ranks on one clock. ``by_rank``: which of their kernels need the others. Raises ValueError as
    above."""
    durations_us = [item.duration_us for item in known]
    joint = joint_replay(list(by_rank), programs, durations_us, meetings(by_rank), absent(by_rank))
    plan = None if joint.absent or len({item.stage for item in ranks}) < len(ranks) else schedule(by_rank)
    pipeline = (
        None
        if plan is None
        else PipelineFigures(
            schedule=plan,
            imbalance=joint.imbalance,
            bubble_share=joint.bubble_share,
            formula_us=expected_us(plan, programs, durations_us, list(by_rank.values())),
        )
    )
    return TimedRun(joint=joint, origin=_origin(known, machine), pipeline=pipeline)


def _memory(item: RankTrace, machine: Machine) -> dict[ComparedFigure, float]:
    trace = item.trace
    held = beside(trace, None, machine, os.environ)
    found: dict[ComparedFigure, float] = {
        ComparedFigure.USED_PEAK: trace.used_peak_bytes,
        ComparedFigure.WITH_FRAGMENTS: trace.with_fragments_peak_bytes,
        ComparedFigure.DEVICE: trace.with_fragments_peak_bytes + held.most_bytes,
        ComparedFigure.HOST: trace.host_peak_bytes,
    }
    moved = observed(trace, num_layers=sys.maxsize).total.size_bytes
    return found if moved is None else {**found, ComparedFigure.MOVED: moved}


def rank_figures(
    ranks: Sequence[RankTrace],
    values: Mapping[int, Mapping[ComparedFigure, float]],
    peaks: Mapping[int, Peak] | None = None,
) -> tuple[RankFigures, ...]:
    """``values``, ``peaks``: by rank."""
    return tuple(
        RankFigures(
            rank=item.rank, stage=item.stage, values=values[item.rank], peak=None if peaks is None else peaks[item.rank]
        )
        for item in ranks
    )


def _title(title: str, item: RankTrace, ranks: Sequence[RankTrace]) -> str:
    return (
        title
        if len(ranks) == 1
        else phrase("{title}, rank {rank} (stage {stage})", title=title, rank=item.rank, stage=item.stage)
    )


def _origin(known: Sequence[Costs], machine: Machine) -> str:
    total = sum(float(item.duration_us.sum()) for item in known) or 1.0
    shares = {
        origin: sum(float(item.duration_us.sum()) * item.share(origin) for item in known) / total
        for origin in FigureOrigin
    }
    told = joined(
        ", ",
        (
            phrase("{origin} {share:.0%}", origin=phrase(origin.value), share=share)
            for origin, share in shares.items()
            if share
        ),
    )
    low, high = (sum(item.range_of(float(item.duration_us.sum()))[side] for item in known) / total for side in (0, 1))
    return phrase(
        "on {hardware}: {origins}; real times are expected from {low:.2f} to {high:.2f} of these",
        hardware=machine.hardware.name,
        origins=told,
        low=low,
        high=high,
    )


def _missing(joint: JointTimeline) -> tuple[str, ...]:
    if not joint.absent:
        return ()
    return (
        phrase(
            "There are no traces of the ranks {ranks}, with which these exchange data. They are taken to be on "
            "time, so the step and its bubbles are at least this long.",
            ranks=", ".join(map(str, joint.absent)),
        ),
    )


def _troubles(ranks: Sequence[RankTrace]) -> tuple[str, ...]:
    known = {outcome.value for outcome in RankOutcome}
    return tuple(
        phrase("rank {rank}: {outcome}", rank=item.rank, outcome=phrase(outcome) if outcome in known else outcome)
        for item in ranks
        if (outcome := item.report.get("outcome", "completed")) != "completed"
    )
