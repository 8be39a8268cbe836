"""Dry-run the cases of cases.py, keep their traces, and go on where an earlier call stopped.

    python scripts/evidence/collect.py FOLDER [--only TEXT] [--jobs 2]

``FOLDER/<case>/`` gets the trace files, the log and ``run.json`` of one rank.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from cases import Case, cases

from swapconf.config import overrides
from swapconf.dryrun.capacity import jobs_at_once
from swapconf.dryrun.fold import folded
from swapconf.dryrun.outcome import RankOutcome
from swapconf.dryrun.rank_order import RankOrder


def order(case: Case, folder: Path) -> RankOrder:
    document = overrides.read(["--config", str(case.path)], case.changes)
    assert document is not None
    return RankOrder(document=document, rank=case.rank, keep=folder)


def dry_run(case: Case, folder: Path) -> str:
    """One case, into a folder that appears only when it is whole."""
    work = folder / f".{case.name}"
    shutil.rmtree(work, ignore_errors=True)
    report = folded.dry_run(order(case, work))
    (inner,) = work.glob("rank_*")
    target = folder / case.name
    shutil.rmtree(target, ignore_errors=True)
    inner.rename(target)
    shutil.rmtree(work)
    good = report.outcome in (RankOutcome.COMPLETED, RankOutcome.DOES_NOT_FIT)
    return f"{case.name}: {report.outcome.value}, {report.seconds:.0f} s{'' if good else ': ' + report.detail}"


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """What is there of the cases: ``run.json`` by name."""
    return {
        case.name: json.loads(path.read_text(encoding="utf-8"))
        for case in cases()
        if (path := folder / case.name / "run.json").exists()
    }


def main() -> None:
    import joblib

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    known = records(folder)
    todo = [case for case in cases() if case.name not in known and options.only in case.name]
    done = joblib.Parallel(n_jobs=jobs_at_once((), options.jobs), return_as="generator_unordered")(
        joblib.delayed(dry_run)(case, folder) for case in todo
    )
    for index, line in enumerate(done, 1):
        print(f"{index}/{len(todo)} {line}", flush=True)


if __name__ == "__main__":
    main()
