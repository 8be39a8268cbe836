"""BASELINE + YAML -> VARIANT: a what-if instead of a dry run, from the traces of a run without swap and recompute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swapconf.comparing.folders import RankTrace
from swapconf.comparing.traced import TIMES
from swapconf.errors import in_order
from swapconf.pipeline import Study
from swapconf.resolve.knowledge import Versions
from swapconf.variant import Figure, RankFigures, Variant
from swapconf.whatif import ORIGIN, Answer, Question

NO_TIME = "a what-if tells memory; for times dry-run the YAML (without --from)"
NO_OPERATIONS = "a what-if counts kernels, not their operations"


ONLY_ADDED = ("kernels run again are those of the strategy, without what the model itself computes again where the "
              "strategy does not")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What is known of the step of a predicted strategy: figures by rank, and how."""

    values: Mapping[int, Mapping[Figure, float]]
    origin: str


def of_baseline(title: str, ranks: Sequence[RankTrace], study: Study, versions: Versions,
                policy: str = "mindspore", timing: Timing | None = None) -> Variant:
    """Raises Mismatch where a trace is no baseline for the config. ``timing``: None where the step is not predicted."""
    questions = [Question(Path(item.trace.folder), study, versions, policy) for item in ranks]
    answers = [question.answer() for question in questions]
    known = timing.values if timing is not None else {}
    origins = {"memory": ORIGIN} | ({"time": timing.origin} if timing is not None else {})
    return Variant(
        title=title, origins=origins,
        ranks=tuple(RankFigures(rank=item.rank, stage=item.stage,
                                values={**_figures(answer), **known.get(item.rank, {})})
                    for item, answer in zip(ranks, answers, strict=True)),
        unknown=({} if timing is not None else dict.fromkeys(TIMES, NO_TIME))
        | {Figure.RECOMPUTED_OPERATIONS: NO_OPERATIONS},
        findings=in_order([*study.findings, *(found for answer in answers for found in answer.findings)]),
        notes=(ONLY_ADDED,),
        views=tuple(question.views(answer)[1] for question, answer in zip(questions, answers, strict=True)))


def baseline(variant: Variant) -> Variant:
    """What the traces say, with kernels counted as a what-if counts them: nothing is recomputed by a strategy."""
    return replace(variant, notes=(*variant.notes, ONLY_ADDED), ranks=tuple(
        replace(rank, values={**rank.values, Figure.RECOMPUTED_KERNELS: 0}) for rank in variant.ranks))


def _figures(answer: Answer) -> dict[Figure, float]:
    found = answer.prediction
    return {Figure.USED_PEAK: found.used_peak_bytes, Figure.WITH_FRAGMENTS: answer.placement.mapped_bytes,
            Figure.HOST: found.moves.host.peak_bytes, Figure.MOVED: found.moved_bytes,
            Figure.RECOMPUTED_KERNELS: found.recomputed}
