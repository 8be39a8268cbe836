"""FOLDER -> TRACES of one run by rank, with what the dry run itself said of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapconf.errors import Finding, Origin, Severity, SwapconfError
from swapconf.formats import trace_folder
from swapconf.trace import Trace

_RANK = re.compile(r"rank_(\d+)")


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """``report``: as ``swapconf dryrun`` records it; empty where another program made the trace."""

    rank: int
    stage: int
    trace: Trace
    report: Mapping[str, Any]


def read(folder: Path) -> tuple[RankTrace, ...]:
    """The trace in the folder, or those of all ``rank_*`` below it, in the order of ranks. Raises SwapconfError."""
    alone = (folder / trace_folder.BLOCKS).exists()
    places = [folder] if alone else [path.parent for path in folder.glob(f"rank_*/{trace_folder.BLOCKS}")]
    if not places:
        raise SwapconfError([Finding(
            origin=Origin(file=str(folder)), rule="file-not-found", severity=Severity.ERROR,
            message="neither memory_block.csv nor a folder rank_*/ that has one is in here",
            hint="give a training YAML, or the DIR of `swapconf dryrun --keep DIR`; a folded run leaves no whole "
                 "trace, run it with --no-fold")])
    found = []
    for place in places:
        report = report_in(place)
        number = report.get("rank", _number(place))
        found.append((number, place, report))
    found.sort(key=lambda item: item[0])
    return tuple(RankTrace(rank=rank, trace=trace_folder.read(place, rank), report=report,
                           stage=report.get("stage", index))
                 for index, (rank, place, report) in enumerate(found))


def report_in(folder: Path) -> dict[str, Any]:
    """What ``run.json`` says came of the run; empty where there is none."""
    found = record_in(folder).get("report")
    return found if isinstance(found, dict) else {}


def record_in(folder: Path) -> dict[str, Any]:
    """The whole ``run.json``."""
    try:
        known = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _number(folder: Path) -> int:
    """Of ``rank_4``; 0 for a folder of another name."""
    match = _RANK.fullmatch(folder.name)
    return int(match[1]) if match else 0
