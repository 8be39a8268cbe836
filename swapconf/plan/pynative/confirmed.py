"""NATIVE PLAN + DRY RUNS -> CONFIRMED: what the real MindSpore needs for it, beside what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swapconf.plan.confirmed import ConfirmedRank
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.menu import uniform
from swapconf.plan.pynative.modes import FULL, NativePlan
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


def below(judge: NativeJudge, refuted: NativePlan, found: Sequence[ConfirmedRank]) -> NativeJudge:
    """The next judge where nothing fits with what true runs taught. What a pool loses to fragments may jump by blocks
    of its largest tensors, so what one plan lost is no measure of the next. Instead a stage that did not fit may use
    half as much more than under full recompute as that plan did."""
    before = judge.most_used_bytes or (judge.limits.usable_bytes,) * len(found)
    lowest = judge.predictions(uniform(judge, FULL))
    return replace(
        judge,
        limits=replace(judge.limits, learned_bytes=()),
        most_used_bytes=tuple(
            most if rank.fits else (mine.used_peak_bytes + min(low.used_peak_bytes, mine.used_peak_bytes - 1)) // 2
            for rank, most, mine, low in zip(found, before, judge.predictions(refuted), lowest, strict=True)
        ),
    )
