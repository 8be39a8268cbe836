"""How fast `swapconf oom` reads a log: a generated one, the failure at its end, beside what `grep -c` needs.

Both read the same file a second time, from memory. Two logs: one of lines in which nothing is of interest, one in which
every tenth line tells what the pool holds, as GLOG_v=1 prints it.

usage: python scripts/bench/bench_oom.py [GIB]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from swapconf.postmortem import run_log
from swapconf.postmortem.messages import ANCHORS

LINE = (
    "[INFO] RUNTIME_FRAMEWORK(12345,ffff9c0a,python):2026-11-02-11:24:55.301.443 [mindspore/ccsrc/actor.cc:392] "
    "Run] step {number} loss 3.21 kernel Default/network-MFPipeline/MatMul-op{number} launched\n"
)
STATE = (
    "[INFO] DEVICE(12345,ffff9c0a,python):2026-11-02-11:24:55.301.443 [mindspore/ccsrc/pool.cc:392] Alloc] The dynamic "
    "memory pool total size is {number}M, total used size is 1M, used peak size is 2M.\n"
)
FAILURE = (
    "[ERROR] PRE_ACT(12345,ffff9c0b,python):2026-11-02-11:25:55.301.443 [mindspore/ccsrc/pool.cc:392] F] "
    "TotalUsedMemStatistics : 29356337664 plus TotalUsedByEventMemStatistics : 0 and plus alloc size : 301990400 is "
    "more than total mem size : 29464985600.\n"
)
NUM_LINES = 6000  # of the block that is repeated


def log(folder: Path, size_bytes: int, state_every: int) -> Path:
    lines = ((STATE if state_every and at % state_every == 0 else LINE).format(number=at) for at in range(NUM_LINES))
    block = "".join(lines).encode()
    path = folder / "worker_0.log"
    with path.open("wb") as file:
        for _ in range(size_bytes // len(block) + 1):
            file.write(block)
        file.write(FAILURE.encode())
    return path


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of a core, with its children; the second counts where others use the machine, too."""
    start, before = time.perf_counter(), sum(os.times()[:4])
    work()
    return time.perf_counter() - start, sum(os.times()[:4]) - before


def grep(path: Path, *words: str) -> None:
    subprocess.run(
        ["grep", "-c", *(part for word in words for part in ("-e", word)), path], capture_output=True, check=False
    )


def measure(title: str, path: Path) -> None:
    works: dict[str, Callable[[], object]] = {
        "swapconf oom": lambda: run_log.read(path),
        "grep -c, one phrase": lambda: grep(path, "is more than total mem size"),
        "grep -c, the same words": lambda: grep(path, *(anchor.decode() for anchor in ANCHORS)),
    }
    grep(path, "x")  # from now on it is in memory
    size_bytes = path.stat().st_size
    print(f"{title}, {size_bytes / 2**30:.2f} GiB")
    for name, work in works.items():
        taken, computed = seconds(work)
        print(f"  {name:24} {taken:7.2f} s {size_bytes / taken / 1e6:6.0f} MB/s  {computed:7.2f} s of a core")


def main() -> None:
    size_bytes = int(float(sys.argv[1] if len(sys.argv) > 1 else "2") * 2**30)
    for title, state_every in (("nothing of interest", 0), ("every tenth line a state of the pool", 10)):
        with tempfile.TemporaryDirectory() as folder:
            measure(title, log(Path(folder), size_bytes, state_every))


if __name__ == "__main__":
    main()
