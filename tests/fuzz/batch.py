"""Child processes: many inputs of one target, or one file, within limits. Run as ``python -m tests.fuzz.batch``, which
loads everything once and then, for each line that it reads, a JSON list of words, does in a child of its own:

    TARGET SEED FIRST STOP PROGRESS     inputs by number; PROGRESS is a file that always tells the current one
    TARGET FILE                         one file

The child prints one JSON object: ``{"inputs", "slowest_ms", "slowest", "peak_mb", "failed": [[number, what], ...]}``.
For each line one is printed: ``[exit code or minus the signal, what the child printed, what it complained of]``.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 1.0  # of processor time, for one input
MEGABYTES = 500
HANG_SECONDS = 5.0
WALL_SECONDS = 900  # for a child, which may wait for something without using processor time


def limit() -> None:
    """This process may take so much more memory than it has now, and dies where one input runs on."""
    with open("/proc/self/statm", encoding="ascii") as status:
        now_bytes = int(status.read().split()[0]) * resource.getpagesize()
    most = now_bytes + (MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def run(target: str, inputs: Iterable[tuple[int, bytes]]) -> dict[str, Any]:
    from tests.fuzz.targets import TARGETS

    use, count, slowest, failed = TARGETS[target], 0, (0.0, -1), []
    for number, data in inputs:
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        start = time.process_time()
        try:
            use(data)
        except Exception as error:
            failed.append([number, told(error)])
        took = time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, (took, number))
        if took > SECONDS:
            failed.append([number, f"slow: {took:.2f} s"])
        count += 1
        if count % 500 == 0:
            gc.collect()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "inputs": count,
        "slowest_ms": slowest[0] * 1000,
        "slowest": slowest[1],
        "peak_mb": peak_mb,
        "failed": failed,
    }


def told(error: Exception) -> str:
    """The error and the innermost lines of ours, by which equal faults are known."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}swapconf{os.sep}" in frame.filename or f"{os.sep}fuzz{os.sep}targets" in frame.filename
    ]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-4:-1])
    return f"{type(error).__name__}: {str(error)[:160]!r} at {where}"


def numbered(target: str, seed: int, first: int, stop: int, progress: str) -> Iterator[tuple[int, bytes]]:
    from tests.fuzz.mutations import input_of

    with open(progress, "wb", buffering=0) as file:
        for number in range(first, stop):
            os.pwrite(file.fileno(), b"%10d" % number, 0)
            yield number, input_of(target, seed, number)


def main(words: list[str]) -> None:
    from tests.fuzz import mutations, targets  # loaded before the limit counts

    target = words[0]
    if len(words) == 2:
        inputs: Iterable[tuple[int, bytes]] = [(0, Path(words[1]).read_bytes())]
    else:
        inputs = numbered(target, int(words[1]), int(words[2]), int(words[3]), words[4])
    targets.TARGETS[target](mutations.seeds(target)[0])  # what is loaded once is not the first input's
    limit()
    print(json.dumps(run(target, inputs)))


def serve() -> None:
    from tests.fuzz import targets  # noqa: F401  # loaded once for all children

    for line in sys.stdin:
        with (
            tempfile.TemporaryFile() as printed,
            tempfile.TemporaryFile() as complained,
            tempfile.TemporaryDirectory(prefix="swapconf-fuzz-") as folder,
        ):
            child = os.fork()
            if not child:
                tempfile.tempdir = folder  # goes with the child, however that ends
                _alone(json.loads(line), printed.fileno(), complained.fileno())
            _, status = os.waitpid(child, 0)
            texts = [os.pread(file.fileno(), 1 << 24, 0).decode() for file in (printed, complained)]
        print(json.dumps([os.waitstatus_to_exitcode(status), *texts]), flush=True)


def _alone(words: list[str], printed: int, complained: int) -> NoReturn:
    code = 1
    try:
        signal.alarm(WALL_SECONDS)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(printed, 1)
        os.dup2(complained, 2)
        main(words)
        sys.stdout.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve()
