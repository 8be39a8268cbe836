"""COMPOSED -> FOLDER: the trace and its record as a dry run keeps them, so that every command reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swapconf.dryrun.child import Ran, kept, record
from swapconf.dryrun.composing.composed import Composed
from swapconf.dryrun.effect.effect import observed
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.dryrun.verdict import Peaks, verdict
from swapconf.memory import holders
from swapconf.trace import grown_trace_writer
from swapconf.trace.trace import WorkerLog


def keep(found: Composed, folder: Path) -> RankReport:
    """``folder``: gets ``rank_N``. The report says where the trace is from. Raises OSError."""
    stage, trace, study = found.stage, found.trace, found.stage.study
    order = RankOrder(document=study.document, rank=stage.rank, keep=folder)
    place = kept(folder, order)
    grown_trace_writer.write(trace, place)
    log = WorkerLog(usable_bytes=found.sources[-1].pool.limit_bytes)
    blank = RankReport(
        file=study.document.file,
        rank=stage.rank,
        stage=stage.number,
        level=1,
        outcome=RankOutcome.COMPLETED,
        usable_bytes=log.usable_bytes,
        grown=found.words,
        peak=holders.peak(trace),
    )
    peaks = Peaks(
        used_bytes=trace.used_peak_bytes,
        with_fragments_bytes=trace.with_fragments_peak_bytes,
        reserved_bytes=None,
        is_estimated=True,
    )
    report = verdict(blank, study, log, peaks, observed(trace, study.config.model.num_layers or 0))
    facts = {"micro_batches": found.micro_batches, "of_micro_batches": stage.micro_batches}
    record(order, Ran(report=report, log=log, trace=replace(trace, folder=str(place))), report, grown=facts)
    return report
