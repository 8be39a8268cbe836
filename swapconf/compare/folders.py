"""FOLDER -> TRACES of one run by rank, with what the dry run itself said of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapconf.trace import run_record, trace_folder
from swapconf.trace.lifetimes import UNTOLD, PoolRecord
from swapconf.trace.trace import Trace
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

_RANK = re.compile(r"rank_([0-9]{1,6})")


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """``report``: as ``swapconf dryrun`` records it; empty where another program made the trace. ``pool``: what the run
    said of it."""

    rank: int
    stage: int
    trace: Trace
    report: Mapping[str, Any]
    pool: PoolRecord = UNTOLD


def read(folder: Path) -> tuple[RankTrace, ...]:
    """The trace in the folder, or those of all ``rank_*`` below it, in the order of ranks. Raises SwapconfError."""
    alone = (folder / trace_folder.BLOCKS).exists()
    places = [folder] if alone else [path.parent for path in folder.glob(f"rank_*/{trace_folder.BLOCKS}")]
    if not places:
        raise SwapconfError(
            [
                Finding(
                    origin=Origin(file=str(folder)),
                    rule="file-not-found",
                    severity=Severity.ERROR,
                    message=phrase("neither memory_block.csv nor a folder rank_*/ that has one is in here"),
                    hint=phrase(
                        "give a training YAML, or the DIR of `swapconf dryrun --keep DIR`; where a folded run "
                        "could not leave a trace of the whole model, run it with --no-fold"
                    ),
                )
            ]
        )
    found = []
    for place in places:
        report = run_record.report(place)
        number = report.get("rank", _number(place))
        found.append((number, place, report))
    found.sort(key=lambda item: item[0])
    return tuple(
        RankTrace(
            rank=rank,
            trace=trace_folder.read(place, rank),
            report=report,
            pool=run_record.pool(place),
            stage=report.get("stage", index),
        )
        for index, (rank, place, report) in enumerate(found)
    )


def of_trace(folder: Path, trace: Trace) -> RankTrace:
    """The same for one folder whose trace has been read already."""
    report = run_record.report(folder)
    rank = report.get("rank", _number(folder))
    return RankTrace(
        rank=rank,
        trace=replace(trace, rank=rank),
        report=report,
        pool=run_record.pool(folder),
        stage=report.get("stage", 0),
    )


def _number(folder: Path) -> int:
    """Of ``rank_4``; 0 for a folder of another name."""
    match = _RANK.fullmatch(folder.name)
    return int(match[1]) if match else 0
