"""BASELINE + YAML -> VARIANT: a what-if instead of a dry run, from the traces of a run without swap and recompute."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swapconf.compare.folders import RankTrace
from swapconf.compare.traced import TIMES, TimedRun, rank_figures, together
from swapconf.compare.variant import ComparedFigure, Variant
from swapconf.study.beside import beside
from swapconf.study.own_model import as_run
from swapconf.study.study import Study
from swapconf.timing.cost import Machine
from swapconf.timing.meetings import Call
from swapconf.whatif.question import Answer, Question
from swapconf.words.findings import in_order
from swapconf.words.phrases import joined, phrase

ONLY_ADDED = phrase(
    "kernels run again, and their operations, are those of the strategy, without what the model "
    "itself computes again where the strategy does not"
)


def of_baseline(
    title: str, ranks: Sequence[RankTrace], study: Study, machine: Machine, policy: str = "mindspore"
) -> Variant:
    """Raises Mismatch where a trace is no baseline for the config. Times are missing, and why is said, where the ranks
    do not go together."""
    if ranks:
        study = as_run(study, Path(ranks[0].trace.folder), os.environ)
    questions = [Question(Path(item.trace.folder), study, policy, machine) for item in ranks]
    answers = [question.answer() for question in questions]
    values = {
        item.rank: {
            **_figures(answer),
            ComparedFigure.DEVICE: answer.placement.mapped_bytes
            + beside(item.trace, study.config, machine, os.environ).most_bytes,
        }
        for item, answer in zip(ranks, answers, strict=True)
    }
    variant = Variant(
        title=title,
        notes=(ONLY_ADDED,),
        ranks=rank_figures(ranks, values),
        origins={
            "memory": joined(
                "; ",
                dict.fromkeys([*(question.origin for question in questions), *(answer.way.told for answer in answers)]),
            )
        },
        findings=in_order(
            [
                *study.findings,
                *(finding for question in questions for finding in question.findings),
                *(finding for answer in answers for finding in answer.findings),
            ]
        ),
        views=tuple(question.views(answer)[1] for question, answer in zip(questions, answers, strict=True)),
    )
    try:
        timed = _time_of(ranks, questions, answers, machine)
    except ValueError as error:
        return replace(variant, unknown=dict.fromkeys(TIMES, str(error)))
    return replace(
        variant,
        notes=(ONLY_ADDED, *timed.notes),
        origins={**variant.origins, "time": phrase("predicted, {origin}", origin=timed.origin)},
        ranks=rank_figures(ranks, {rank: {**values[rank], **timed.figures[rank]} for rank in values}),
        pipeline=timed.pipeline,
        timeline=timed.picture(title, ranks, [answer.prediction.device for answer in answers]),
    )


def _time_of(
    ranks: Sequence[RankTrace], questions: Sequence[Question], answers: Sequence[Answer], machine: Machine
) -> TimedRun:
    """What exchanges data in the baseline does so under the strategy, once more where it runs again."""
    clocks = [question.clock for question in questions if question.clock is not None]
    steps = [answer.times.step for answer in answers if answer.times is not None]
    by_rank: dict[int, tuple[Call, ...]] = {}
    for item, clock, step in zip(ranks, clocks, steps, strict=True):
        known = {call.kernel: call for call in clock.step.calls(item.rank)}
        by_rank[item.rank] = tuple(
            replace(known[row], kernel=kernel) for kernel, row in enumerate(step.row.tolist()) if row in known
        )
    return together(ranks, [step.timeline.program for step in steps], [step.costs for step in steps], by_rank, machine)


def baseline(variant: Variant) -> Variant:
    """What the traces say, with kernels counted as a what-if counts them: nothing is recomputed by a strategy."""
    return replace(
        variant,
        notes=(*variant.notes, ONLY_ADDED),
        ranks=tuple(
            replace(
                rank,
                values={**rank.values, ComparedFigure.RECOMPUTED_KERNELS: 0, ComparedFigure.RECOMPUTED_OPERATIONS: 0},
            )
            for rank in variant.ranks
        ),
    )


def _figures(answer: Answer) -> dict[ComparedFigure, float]:
    prediction = answer.prediction
    return {
        ComparedFigure.USED_PEAK: prediction.used_peak_bytes,
        ComparedFigure.WITH_FRAGMENTS: answer.placement.mapped_bytes,
        ComparedFigure.HOST: prediction.host_peak_bytes,
        ComparedFigure.MOVED: prediction.moved_bytes,
        ComparedFigure.RECOMPUTED_KERNELS: prediction.recomputed,
        ComparedFigure.RECOMPUTED_OPERATIONS: answer.times.added_operations if answer.times is not None else 0.0,
    }
