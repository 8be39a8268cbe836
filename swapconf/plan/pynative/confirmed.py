"""NATIVE PLAN + DRY RUNS -> CONFIRMED: what the real MindSpore needs for it, beside what was predicted."""

from __future__ import annotations

from collections.abc import Sequence

from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.modes import NativePlan
from swapconf.plan.runs import StageRun


def confirm(judge: NativeJudge, chosen: NativePlan, runs: Sequence[StageRun]) -> tuple[ConfirmedRank, ...]:
    """``runs``: of the plan, of one rank of each stage; all ranks of one are alike."""
    learned = judge.limits.learned_bytes or (0,) * len(runs)
    return tuple(
        ConfirmedRank(
            rank=run.rank,
            stage=run.stage,
            predicted_used_bytes=found.used_peak_bytes,
            used_bytes=run.used_peak_bytes,
            predicted_pool_bytes=pool,
            pool_bytes=run.with_fragments_peak_bytes,
            most_bytes=most + more,
        )
        for run, found, pool, most, more in zip(
            runs, judge.predictions(chosen), judge.pool_bytes(chosen), judge.limits.pool_bytes, learned, strict=True
        )
    )
