"""ORDERS -> RECORDS: dry runs that keep their traces, of which an equal one that is there already is not run again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from swapconf.dryrun import fan_out
from swapconf.dryrun.adapted import adapted, digests
from swapconf.dryrun.outcome import RankOutcome
from swapconf.dryrun.pynative import expert_load
from swapconf.dryrun.rank_order import RankOrder
from swapconf.dryrun.report_record import as_record
from swapconf.trace import run_record
from swapconf.upstream.facts import Versions
from swapconf.words.phrases import Phrase, phrase

# a rank that does not fit has run its step all the same, on a simulated device
_HAVE_FIGURES = (RankOutcome.COMPLETED.value, RankOutcome.DOES_NOT_FIT.value)
# what stops a run and is gone the next time
_PASSING = re.compile(r"MemoryError|OSError|PermissionError|Connection|Timeout|Interrupt|Errno|[Oo]ut of memory")

Reports: TypeAlias = "dict[tuple[Path, int], Mapping[str, Any]]"  # by folder and rank


def reports_of(
    orders: Sequence[RankOrder],
    jobs: int,
    *,
    reuse: bool = False,
    remembers: bool = False,
    dask: str | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Reports:
    """By folder and rank what became of orders that keep their traces. ``reuse``: take a kept run with the same
    settings and versions for a new one; with ``remembers`` also one that MindSpore or mindformers refused.
    ``progress``: called after each new run."""
    known: Reports = {}
    waiting = []
    for order in orders:
        kept = _kept(order, remembers=remembers) if reuse else {}
        if kept:
            known[_key(order)] = kept
        else:
            waiting.append(order)
    for place, report in fan_out.dry_run_each(waiting, jobs, dask) if waiting else ():
        known[_key(waiting[place])] = as_record(report)
        progress()
    return known


def _key(order: RankOrder) -> tuple[Path, int]:
    assert order.keep is not None
    return order.keep, order.rank


def _kept(order: RankOrder, *, remembers: bool) -> Mapping[str, Any]:
    """The report of an equal run whose trace, if it left one, is still in its folder; empty where there is none.
    ``remembers``: or that was refused."""
    assert order.keep is not None
    place = order.keep / f"rank_{order.rank}"
    found, report = run_record.read(place), run_record.report(place)
    ran_in, versions = found.get("environment"), Versions.in_use()
    plain: Any = order.document.root.plain()
    settings = json.loads(json.dumps(plain, default=str))  # as it was written
    beside = digests(adapted(plain, Path.cwd()), order.register_path)
    same = (
        (found.get("settings"), found.get("level"), found.get("plain"), found.get("real_data"))
        == (settings, order.level, order.plain, order.real_data)
        and (found.get("as_parallel", False), found.get("launch_blocking", False))
        == (order.as_parallel, order.launch_blocking)
        and expert_load.of_record(found.get("expert_load")) == order.load
        and (found.get("register_path"), found.get("inputs")) == (order.register_path, beside)
        and isinstance(ran_in, dict)
        and (found.get("swapconf"), ran_in.get("mindspore"), ran_in.get("mindformers"))
        == (version("swapconf"), versions.mindspore, versions.mindformers)
    )
    has_trace = (place / "memory_block.csv").exists()
    # of a folded run without a trace its figures are all that there is
    is_there = has_trace if report.get("folded") is None else order.fold and (has_trace or not report.get("grown"))
    if not same or not run_record.is_whole(report):
        return {}
    is_usable = is_there and report["outcome"] in _HAVE_FIGURES
    return report if is_usable or (remembers and _is_refused(report)) else {}


def _is_refused(report: Mapping[str, Any]) -> bool:
    """Whether it would end so every time."""
    return report["outcome"] == RankOutcome.STOPPED.value and not _PASSING.search(str(report["detail"]))


def without_trace(report: Mapping[str, Any]) -> Phrase:
    """How a rank that did not complete ended, from its report."""
    outcome = report["outcome"]
    return phrase(
        "rank {rank} {outcome}: {detail}", rank=report["rank"], outcome=phrase(outcome), detail=report["detail"]
    )
