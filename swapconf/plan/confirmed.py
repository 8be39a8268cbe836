"""PLAN + DRY RUNS -> CONFIRMED: what the real MindSpore needs for a plan, beside what was predicted for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swapconf.plan.judge import Judge, Scored
from swapconf.plan.limits import Limits
from swapconf.plan.runs import StageRun


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfirmedRank:
    """One rank.

    Attributes:
        most_bytes: What its pool may take, with what was learned before.
        is_placed: The run shows where blocks lie. A fold that left no trace of the whole model has its fragments from a
            line, which tells little of them: ``pool_bytes`` then is what was predicted, and what the run used more.
    """

    rank: int
    stage: int
    predicted_used_bytes: int
    used_bytes: int
    predicted_pool_bytes: int
    pool_bytes: int
    most_bytes: int
    is_placed: bool = True

    @property
    def fits(self) -> bool:
        return self.pool_bytes <= self.most_bytes

    @property
    def error(self) -> float:
        """Of the used peak, as a share of the truth."""
        return self.predicted_used_bytes / self.used_bytes - 1


def confirm(judge: Judge, chosen: Scored, runs: Sequence[StageRun]) -> tuple[ConfirmedRank, ...]:
    """``runs``: of the plan, one for each rank of the judge, in its order."""
    learned = judge.limits.learned_bytes or (0,) * len(runs)
    return tuple(
        ConfirmedRank(
            rank=run.rank,
            stage=run.stage,
            predicted_used_bytes=memory.used_peak_bytes,
            used_bytes=run.used_peak_bytes,
            predicted_pool_bytes=pool,
            pool_bytes=run.with_fragments_peak_bytes
            if run.is_placed
            else pool + run.used_peak_bytes - memory.used_peak_bytes,
            is_placed=run.is_placed,
            most_bytes=most + more,
        )
        for run, memory, pool, most, more in zip(
            runs, chosen.found.ranks, judge.pool_bytes(chosen.plan), judge.limits.pool_bytes, learned, strict=True
        )
    )


def learned(found: Sequence[ConfirmedRank], before: Sequence[int]) -> tuple[int, ...]:
    """By rank, what the next plan has to leave free: by how much this one needed more than was predicted."""
    return tuple(
        max(known, item.pool_bytes - item.predicted_pool_bytes) for item, known in zip(found, before, strict=True)
    )


def taught(limits: Limits, found: Sequence[ConfirmedRank]) -> Limits:
    """The limits for the next plan."""
    return replace(limits, learned_bytes=learned(found, limits.learned_bytes or (0,) * len(found)))
