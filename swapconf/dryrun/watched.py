"""REPORT + ORDER -> REPORT with what each of the steps held that were asked for, and what grows from step to step.

They are trained by a child of their own, without MindSpore's memory tracker: the record that it keeps of every launch
would be most of what grows in the process. The trace, and what is told from it, are those of a run of two steps.
"""

from __future__ import annotations

from dataclasses import replace

from swapconf.dryrun.by_step import STEPS
from swapconf.dryrun.child import run
from swapconf.dryrun.growth import growing
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.study.study import Study

PART = "steps"  # the folder of the child below that of the rank


def with_steps(report: RankReport, order: RankOrder, study: Study) -> RankReport:
    """``report``: of a run of ``order`` that ended well."""
    if order.steps <= STEPS:
        return report
    told = run(replace(order, is_watched=True), study, PART).report
    return replace(
        report,
        by_step=told.by_step,
        findings=(*report.findings, *told.findings, *growing(study, order.rank, told.by_step)),
    )
