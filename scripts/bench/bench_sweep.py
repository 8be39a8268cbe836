#!/usr/bin/env python3
"""A sweep of prefetches with the time of a step: 1,000 what-ifs, each with its peak and its step on a card.

    python scripts/bench/bench_sweep.py FOLDER --config FILE [--set A.B.C=VALUE ...] [--variants 1000]

FOLDER: what ``swapconf dryrun --keep`` left of one rank without swap and recompute, for example of a model with 32
layers; the config swaps. One process, one core; reading and preparing the trace once is timed beside it.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from swapconf.config import overrides
from swapconf.study.study import study_document
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.upstream.facts import Versions
from swapconf.whatif.question import Question
from swapconf.whatif.sweep import best_overall

TARGET_SECONDS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", required=True)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="A.B.C=VALUE")
    parser.add_argument("--variants", type=int, default=1000)
    options = parser.parse_args()
    document = overrides.read(["--config", options.config], options.changes)
    assert document is not None
    versions, card = Versions.in_use(), hardware.load("ascend_910b2")
    study = study_document(document, versions, os.environ)
    start = time.perf_counter()
    question = Question(options.folder, study, machine=Machine(hardware=card))
    loading = time.perf_counter() - start
    start, used = time.perf_counter(), time.process_time()
    points = question.sweep(range(1, options.variants + 1))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    best = best_overall(points)
    print(
        f"reading and preparing once: {loading:.1f} s; {len(points):,} prefetches in {seconds:.1f} s, of which "
        f"{used:.1f} s on one core (target {TARGET_SECONDS} s), {1000 * seconds / len(points):.0f} ms each"
    )
    print(
        "best overall: none"
        if best is None or best.time is None
        else f"best overall: {best.prefetch}, {best.time.step_us / 1000:.1f} ms a step"
    )


if __name__ == "__main__":
    main()
