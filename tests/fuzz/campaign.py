"""TARGETS -> FIGURES: fuzz runs in child processes; what fails is run again alone, and saved."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import REPOSITORY, input_of
from tests.fuzz.targets import SHARE

BATCH = 4000
KEPT = 2  # files of one kind of fault
_LOCAL = threading.local()


@dataclass(kw_only=True)
class Figures:
    """Of one target. ``failed``: what went wrong, by file that was saved; ``kinds``: how often, by fault and line."""

    target: str
    inputs: int = 0
    slowest_ms: float = 0.0
    peak_mb: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)


def shares(inputs: int) -> dict[str, int]:
    """How many inputs each target gets of so many."""
    total, counts, left = sum(SHARE.values()), {}, inputs
    for name, share in SHARE.items():
        counts[name] = inputs * share // total
        left -= counts[name]
    counts["yaml"] += left
    return counts


def run(target: str, inputs: int, seed: int, out: Path) -> Figures:
    """``inputs`` of one target, in one child after the other. Failing inputs are files in ``out``."""
    figures = Figures(target=target)
    with tempfile.NamedTemporaryFile() as progress:
        first = 0
        while first < inputs:
            stop = min(first + BATCH, inputs)
            done, words = _child(target, seed, first, stop, progress.name)
            if done is None:
                stop = int(Path(progress.name).read_text(encoding="ascii") or first) + 1
                done = {"inputs": stop - first, "slowest_ms": 0.0, "peak_mb": 0.0, "failed": [[stop - 1, words]]}
            figures.inputs += done["inputs"]
            figures.slowest_ms = max(figures.slowest_ms, done["slowest_ms"])
            figures.peak_mb = max(figures.peak_mb, done["peak_mb"])
            for number, what in done["failed"]:
                _save(figures, input_of(target, seed, number), what, out)
            first = stop
    return figures


def run_all(counts: dict[str, int], seed: int, out: Path, jobs: int = 1) -> Iterator[Figures]:
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda item: run(item[0], item[1], seed, out), counts.items())


def replay(target: str, file: Path) -> str:
    """What one file does to its target, alone in a child; "" for nothing."""
    done, words = _child(target, str(file))
    return words if done is None else "; ".join(what for _, what in done["failed"])


def _save(figures: Figures, data: bytes, what: str, out: Path) -> None:
    kind = what.partition(":")[0] + what.rpartition(" at ")[2]
    figures.kinds[kind] = figures.kinds.get(kind, 0) + 1
    if figures.kinds[kind] > KEPT:
        return
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{figures.target}-{sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    alone = replay(figures.target, path)
    figures.failed[str(path)] = alone or f"not when it is run alone: {what}"


def _child(*words: object) -> tuple[dict[str, Any] | None, str]:
    if not hasattr(_LOCAL, "parent"):
        _LOCAL.parent = Parent("-m", "tests.fuzz.batch")
        atexit.register(_LOCAL.parent.close)
    found: tuple[dict[str, Any] | None, str] = _LOCAL.parent.child(*words)
    return found


class Parent:
    """A Python process that has loaded what its children need; ``words``: what it runs, which calls `batch.serve`."""

    def __init__(self, *words: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=REPOSITORY,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def child(self, *words: object) -> tuple[dict[str, Any] | None, str]:
        """What the child printed; None and how it ended where it did not live to."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps([str(word) for word in words]) + "\n")
        asked.flush()
        code, printed, complained = json.loads(answers.readline())
        if code:
            return None, f"ended with {code}: {complained.strip()[-300:]}"
        return json.loads(printed), ""

    def close(self) -> None:
        self._process.communicate()  # closes its input, which ends it
