"""FOLDER of a dry run -> SOURCE, and COMPOSED -> FOLDER: as a dry run keeps it, so that every command reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from swapconf.config.nodes import from_plain, nowhere
from swapconf.dryrun.child import Ran, kept, record
from swapconf.dryrun.composing.composed import Composed, Source
from swapconf.dryrun.composing.offers import Offer
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Stage
from swapconf.dryrun.effect.effect import observed
from swapconf.dryrun.fold.beside_trace import write_graph
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.dryrun.verdict import Peaks, verdict
from swapconf.memory import holders
from swapconf.study.settings import NONE, Settings
from swapconf.study.study import study_for_run
from swapconf.trace import grown_trace_writer, run_record, trace_folder
from swapconf.trace.trace import WorkerLog
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept(Offer):
    """A run whose trace is in ``folder``."""

    folder: Path


def offers(folder: Path, settings: Settings = NONE) -> Iterator[Kept]:
    """Of a dry run that ``--keep`` left in ``folder``, ``DIR/rank_N``: its trace, and those of its fold's parts."""
    for place in (folder, *sorted(folder.iterdir())):
        if (place / run_record.FILE).exists() and (place / trace_folder.BLOCKS).exists():
            with suppress(CannotCompose, SwapconfError):
                stage, _ = _stage_of(place, settings)
                yield Kept(stage=stage, micro_batches=_micro_batches(place, stage), folder=place)


def source(folder: Path, settings: Settings = NONE) -> Source:
    """The dry run that ``--keep`` left in ``folder``, ``DIR/rank_N``: whole, or grown from a fold. Raises CannotCompose
    where it has no record of a run, SwapconfError where the trace cannot be read."""
    stage, rank = _stage_of(folder, settings)
    return Source(
        stage=stage,
        trace=trace_folder.read(folder, rank),
        micro_batches=_micro_batches(folder, stage),
        pool=run_record.pool(folder),
        micro_batch_bytes=run_record.of_a_micro_batch(folder) or run_record.of_a_micro_batch(folder.parent),
    )


def _stage_of(folder: Path, settings: Settings) -> tuple[Stage, int]:
    """With the rank. Raises CannotCompose."""
    known, report = run_record.read(folder), run_record.report(folder)
    if not isinstance(known.get("settings"), dict) or not {"rank", "stage"} <= report.keys():
        raise CannotCompose(phrase("what was run is not recorded beside the trace"))
    document = from_plain(known["settings"], nowhere(str(report.get("file") or folder)))
    return Stage(study=study_for_run(document, os.environ, settings), number=report["stage"]), report["rank"]


def _micro_batches(folder: Path, stage: Stage) -> int:
    return run_record.micro_batches(folder)[0] or stage.micro_batches


def keep(found: Composed, folder: Path) -> RankReport:
    """``folder``: gets ``rank_N``. The report says where the trace is from. Raises OSError."""
    stage, trace, study = found.stage, found.trace, found.stage.study
    order = RankOrder(document=study.document, rank=stage.rank, keep=folder)
    place = kept(folder, order)
    grown_trace_writer.write(trace, place)
    if found.graph is not None:
        write_graph(found.graph, place)
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
    facts = {
        "micro_batches": found.micro_batches,
        "of_micro_batches": stage.micro_batches,
        run_record.OF_A_MICRO_BATCH: found.sources[-1].micro_batch_bytes,
    }
    record(order, Ran(report=report, log=log, trace=replace(trace, folder=str(place))), report, grown=facts)
    return report
