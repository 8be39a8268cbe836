"""JOB -> FILES: one dry run in a child process, which is ended whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import yaml

from swapconf.dryrun import last_graph
from swapconf.dryrun.job import ORDERS, Folder, Job
from swapconf.dryrun.pynative import expert_load
from swapconf.files.writing import replace_text
from swapconf.models import own_layers
from swapconf.trace import fused_kernels, launch_graph
from swapconf.words.phrases import ENGLISH

# MindSpore prints this last; a child that is still alive some time after it hangs in its exit
LAST_WORDS = b"Actual peak memory usage (with fragments)"
EXIT_GRACE_SECONDS = 30.0
TERM_GRACE_SECONDS = 5.0
POLL_SECONDS = 0.2


class Ending(Enum):
    """How the child's process ended; what that means for the rank is judged from its log."""

    EXITED = "exited"
    SIGNALLED = "ended by a signal"
    TIMED_OUT = "ended at its time limit"
    HUNG_AT_EXIT = "hung after printing its peaks, and was ended"
    GAVE_WAY = "ended for others to have its memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """``code``: exit code, or the number of the signal."""

    ending: Ending
    code: int
    seconds: float


def launch(
    job: Job,
    folder: Folder,
    variables: Mapping[str, str],
    python: str = sys.executable,
    gives_way: Callable[[], bool] = lambda: False,
) -> Finished:
    """Run one rank. ``variables``: the child's whole environment, see ``environment.prepare``. ``gives_way``: asked all
    the time whether it is to end for others.

    The child gets a session of its own; nothing of it is left when this returns or raises. Raises OSError when the
    folder cannot be written or the interpreter cannot be started.
    """
    _write(job, folder)
    worker = str(Path(__file__).with_name("worker.py"))
    under = [] if job.plain else ["-m", "swapconf", "run"]
    command = [python, *under, worker, "--config", str(folder.config), str(folder.path)]
    # graphs would take the order of the kernels with them, to another folder
    environment = {name: value for name, value in variables.items() if not name.startswith(last_graph.VARIABLES)}
    if job.prints_graph or job.prints_fused:
        environment |= last_graph.variables(folder, with_fused=job.prints_fused)
    # it tells which part of compiling it is at; who asks for logs of another kind has them
    environment.setdefault("MS_SUBMODULE_LOG_v", "{PIPELINE:1}")
    # its log is searched for English words, whoever asked for the run
    environment |= {
        "RANK_ID": str(job.rank),
        "RANK_SIZE": str(job.cluster.num_devices),
        "MS_SIMULATION_LEVEL": str(job.level),
        "SWAPCONF_LANG": ENGLISH,
        **({} if job.is_watched else {"MS_ALLOC_CONF": "memory_tracker:True"}),
        "PYTHONUNBUFFERED": "1",
    }
    start = time.monotonic()
    with folder.log.open("wb") as log:
        child = subprocess.Popen(
            command,
            cwd=folder.path,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            ending = _wait(child, folder.log, start + job.timeout_seconds, gives_way)
        finally:
            _end(child)
    code = child.returncode
    if ending is Ending.EXITED and code < 0:
        ending = Ending.SIGNALLED
    return Finished(ending=ending, code=abs(code), seconds=time.monotonic() - start)


def _write(job: Job, folder: Folder) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    last_graph.discard(folder)
    # they tell of this child and how far it comes, not of an earlier one
    kept = folder.path / launch_graph.FILE, folder.path / fused_kernels.FILE
    for left in (folder.result, folder.flags, folder.path / own_layers.FILE, *kept):
        left.unlink(missing_ok=True)
    replace_text(folder.config, yaml.safe_dump(job.settings, sort_keys=False, allow_unicode=True))
    orders = {
        "level": job.level,
        "real_data": job.real_data,
        "code": job.code,
        "pynative": job.pynative,
        "as_parallel": job.as_parallel,
        "launch_blocking": job.launch_blocking,
        "expert_load": expert_load.as_record(job.load),
        "rank": job.rank,
        "steps": job.steps,
        "is_watched": job.is_watched,
        "batches": None if job.batches is None else [job.batches.samples, job.batches.count],
        "columns": [[column.name, column.argument, column.kind, column.shape] for column in job.columns],
    }
    replace_text(folder.path / ORDERS, json.dumps(orders))


def _wait(child: subprocess.Popen[bytes], log: Path, deadline: float, gives_way: Callable[[], bool]) -> Ending:
    said_all_at = None
    read = 0
    while child.poll() is None:
        now = time.monotonic()
        if now > deadline:
            return Ending.TIMED_OUT
        if gives_way():
            return Ending.GAVE_WAY
        if said_all_at is None:
            read, said_all = _said_all(log, read)
            said_all_at = now if said_all else None
        elif now > said_all_at + EXIT_GRACE_SECONDS:
            return Ending.HUNG_AT_EXIT
        time.sleep(POLL_SECONDS)
    return Ending.EXITED


def _said_all(log: Path, start: int) -> tuple[int, bool]:
    """Whether the log past ``start`` has the last words, and where to read on."""
    with log.open("rb") as stream:
        stream.seek(start)
        new = stream.read()
    return max(start + len(new) - len(LAST_WORDS), start), LAST_WORDS in new


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child's whole session, politely first; a child that has ended may have left others."""
    for number, grace in ((signal.SIGTERM, TERM_GRACE_SECONDS), (signal.SIGKILL, TERM_GRACE_SECONDS)):
        try:
            os.killpg(child.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            continue
        if not _alive(child.pid):
            break
    child.wait()


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
