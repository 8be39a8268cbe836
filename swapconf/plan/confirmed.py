"""PLAN + DRY RUNS -> CONFIRMED: what the real MindSpore needs for a plan, beside what was predicted for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swapconf.plan.judge import Judge, Scored
from swapconf.plan.runs import StageRun


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfirmedRank:
    """One rank. ``most_bytes``: what its pool may take, with what was learned before."""

    rank: int
    stage: int
    predicted_used_bytes: int
    used_bytes: int
    predicted_pool_bytes: int
    pool_bytes: int
    most_bytes: int

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
            pool_bytes=run.with_fragments_peak_bytes,
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
