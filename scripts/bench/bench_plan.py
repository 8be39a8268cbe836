#!/usr/bin/env python3
"""Planning from traces: how long it takes, and how that grows with layers, stages and entries.

    python scripts/bench/bench_plan.py --config FILE [--set A.B.C=VALUE ...] LAYERS=FOLDER [LAYERS=FOLDER ...]

FOLDER: what ``swapconf dryrun --keep`` left of a model with so many layers without swap and recompute, a `rank_N` for
each stage. Each is planned for two budgets and two numbers of entries, in one process on one core. Ratios are to the
first folder, and to six entries; a busy machine slows the seconds down, and seconds of the processor hardly.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from swapconf.config import overrides
from swapconf.plan.judge import Judge
from swapconf.plan.limits import Cards, Limits
from swapconf.plan.modes import KEEP, RECOMPUTED, uniform
from swapconf.plan.planned import needed_bytes, plan
from swapconf.study.study import study_for_check
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.whatif.evaluate import Evaluator

TARGET_SECONDS = {8: 15, 32: 60, 80: 180}
ENTRIES = (6, 12)
SHARES = (0.25, 0.75)  # of the way from what full recompute needs to what no strategy needs


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    seconds: float
    processor_seconds: float
    asked: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="LAYERS=FOLDER")
    parser.add_argument("--config", required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="A.B.C=VALUE")
    options = parser.parse_args()
    first: float | None = None
    for told in options.folders:
        layers, _, folder = told.partition("=")
        changes = [*options.changes, f"model.model_config.num_layers={layers}"]
        usual: float | None = None
        for entries in ENTRIES:
            for share in SHARES:
                stages, reading, found = _timed(Path(folder), options.config, changes, entries, share)
                first, usual = first or found.processor_seconds, usual or found.processor_seconds
                target = TARGET_SECONDS.get(int(layers))
                print(
                    f"{layers} layers, {stages} stages, {entries} entries at most, budget {share:.0%} of the way: "
                    f"read in {reading:.1f} s; planned in {found.seconds:.1f} s, "
                    f"{found.processor_seconds:.1f} s of the processor"
                    f"{f' (target {target} s)' if target else ''}, {found.asked} plans asked, "
                    f"{1000 * found.processor_seconds / max(found.asked, 1):.0f} ms each; "
                    f"{found.processor_seconds / first:.2f} of the first, {found.processor_seconds / usual:.2f} of "
                    "its own first",
                    flush=True,
                )


def _timed(folder: Path, config: str, changes: list[str], max_entries: int, share: float) -> tuple[int, float, Timed]:
    """(stages, seconds of reading, planning)"""
    study = study_for_check(overrides.of_file(config, changes), os.environ)
    assert study.network is not None
    card = hardware.load("ascend_910b2")
    slower = card.having("host_link_gbps", 0.7 * card.value("host_link_gbps"), "a slower link")
    start = time.perf_counter()
    folders = sorted(folder.glob("rank_*"), key=lambda rank: int(rank.name[5:]))
    evaluator = Evaluator(folders, study, [Machine(hardware=card), Machine(hardware=slower)])
    reading = time.perf_counter() - start
    stages = len(evaluator.ranks)
    anything = Limits(budget_bytes=1 << 62, workspace_bytes=evaluator.workspace_bytes)
    cards = Cards(num_devices=stages, num_stages=stages, per_host=8)
    judge = Judge(evaluator, study.config, study.network, anything, cards, max_entries)
    low, high = (needed_bytes(judge, uniform(mode, study.network)) for mode in (RECOMPUTED, KEEP))
    judge = judge.under(replace(anything, budget_bytes=int(low + share * (high - low))))
    before, start, used = judge.asked, time.perf_counter(), time.process_time()
    planned = plan(judge)
    return (
        stages,
        reading,
        Timed(
            seconds=time.perf_counter() - start,
            processor_seconds=time.process_time() - used,
            asked=planned.judge.asked - before,
        ),
    )


if __name__ == "__main__":
    main()
