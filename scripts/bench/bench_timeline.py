#!/usr/bin/env python3
"""The timeline of a step: dependencies, costs, replay and the room of every prefetch, against reading its trace.

    python scripts/bench/bench_timeline.py FOLDER [--repeats 9]

FOLDER: what ``swapconf dryrun --keep`` left of one rank, for example of a model with 32 layers. Reading the files once
is timed beside it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

from swapconf.timing import hardware
from swapconf.timing.costing import costs, workload
from swapconf.timing.program import program
from swapconf.timing.timeline import prefetches, replay
from swapconf.trace import trace_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    start = time.perf_counter()
    trace = trace_folder.read(options.folder, rank=0)
    reading = time.perf_counter() - start
    card, seconds = hardware.load("generic"), []
    for _ in range(options.repeats):
        fresh = replace(trace)  # what a trace derives once is derived again
        start = time.perf_counter()
        line = replay(program(fresh), costs(workload(fresh), card).duration_us)
        rooms = prefetches(line)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(
        f"{len(line.program):,} kernels in a step, {len(rooms):,} prefetches; median {1000 * median:.0f} ms of "
        f"{options.repeats} (target 200 ms for 32 layers), reading the trace {reading:.2f} s: "
        f"{reading / median:.0f} times longer"
    )


if __name__ == "__main__":
    main()
