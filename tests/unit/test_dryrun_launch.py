"""Faults of a child, with small shell scripts in the place of the interpreter; nothing may be left running."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from swapconf.config.cluster import Cluster
from swapconf.dryrun import launch as module
from swapconf.dryrun.job import Folder, Job
from swapconf.dryrun.launch import LAST_WORDS, Ending, Finished, launch

SECONDS = 20.0


def run(tmp_path: Path, script: str, timeout: float = SECONDS) -> Finished:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    job = Job(settings={"a": 1}, cluster=Cluster(num_stages=2), rank=1, timeout_seconds=timeout)
    return launch(job, Folder(tmp_path / "rank_1"), dict(os.environ), str(python))


def alive(pid: int) -> bool:
    """Not even as a zombie of somebody else."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid_file: Path) -> bool:
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_a_good_end_and_what_the_child_is_given(tmp_path: Path) -> None:
    done = run(tmp_path, 'echo "rank $RANK_ID of $RANK_SIZE level $MS_SIMULATION_LEVEL args $*"')
    assert (done.ending, done.code) == (Ending.EXITED, 0)
    log = (tmp_path / "rank_1/worker.log").read_text()
    assert "rank 1 of 2 level 1" in log
    assert "-m swapconf run" in log
    assert (tmp_path / "rank_1/config.yaml").read_text() == "a: 1\n"


def test_an_exit_code_is_told(tmp_path: Path) -> None:
    assert run(tmp_path, "exit 7").code == 7


def test_a_crash_is_told_by_its_signal(tmp_path: Path) -> None:
    done = run(tmp_path, "kill -SEGV $$")
    assert (done.ending, done.code) == (Ending.SIGNALLED, signal.SIGSEGV)


def test_the_time_limit_ends_the_child_and_its_children(tmp_path: Path) -> None:
    done = run(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid\nwait", timeout=1.0)
    assert done.ending is Ending.TIMED_OUT
    assert done.seconds < SECONDS
    assert gone(tmp_path / "pid")


def test_a_child_that_ignores_the_polite_signal_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TERM_GRACE_SECONDS", 0.5)
    done = run(tmp_path, f"trap '' TERM\necho $$ > {tmp_path}/pid\nwhile :; do sleep 0.1; done", timeout=1.0)
    assert done.ending is Ending.TIMED_OUT
    assert gone(tmp_path / "pid")


def test_a_child_that_hangs_after_its_last_words_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXIT_GRACE_SECONDS", 0.5)
    done = run(tmp_path, f"echo '{LAST_WORDS.decode()}: 7M'\necho $$ > {tmp_path}/pid\nsleep 60")
    assert done.ending is Ending.HUNG_AT_EXIT
    assert done.seconds < SECONDS
    assert gone(tmp_path / "pid")


def test_what_a_child_leaves_behind_is_ended(tmp_path: Path) -> None:
    done = run(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid")
    assert done.ending is Ending.EXITED
    assert gone(tmp_path / "pid")


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "rank_1").write_text("in the way")
    with pytest.raises(OSError, match="rank_1"):
        run(tmp_path, "exit 0")
