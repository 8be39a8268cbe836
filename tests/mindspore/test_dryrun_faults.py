"""Faults of real dry runs: one clear outcome for the rank, nothing left running, nothing half written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swapconf.files import cache_folder
from tests.helpers import ROOT, heed_ctrl_c
from tests.mindspore.test_dryrun import STAGES

pytestmark = pytest.mark.mindspore
EXAMPLE = ROOT / "configs/llama2_7b/example1_default_swap.yaml"
TINY = ("hidden_size=64", "num_heads=4", "seq_length=64", "vocab_size=128", "multiple_of=16")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder of its own, with the shim of the real one."""
    folder = tmp_path / "cache"
    (folder / "swapconf").mkdir(parents=True, mode=0o700)
    shim = cache_folder.place("shim", os.environ)
    if shim.is_dir():
        shutil.copytree(shim, folder / "swapconf" / "shim", symlinks=True)
    return folder


def command(keep: Path, *words: str, layers: int = 2) -> list[str]:
    """Two stages, one rank of each."""
    settings = [*(f"model.model_config.{item}" for item in (*TINY, f"num_layers={layers}")), *STAGES]
    return [
        sys.executable,
        "-m",
        "swapconf",
        "dryrun",
        str(EXAMPLE),
        "--keep",
        str(keep),
        "--format",
        "json",
        *(word for setting in settings for word in ("--set", setting)),
        *words,
    ]


def processes(folder: Path) -> list[int]:
    """Processes that were told of a folder, apart from this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            zombie = " Z " in (entry / "stat").read_text()
        except OSError:
            continue
        if str(folder).encode() in words and not zombie and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def children(keep: Path, count: int, started: subprocess.Popen[str], timeout: float = 60) -> list[int]:
    """The dry-run children once there are so many and they have loaded MindSpore."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and started.poll() is None:
        found = [pid for pid in processes(keep) if pid != started.pid and loaded(pid)]
        if len(found) >= count:
            return found
        time.sleep(0.2)
    pytest.fail(f"no {count} children within {timeout} s")


def loaded(pid: int) -> bool:
    try:
        return "libmindspore_core" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def none_left(folder: Path, seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while processes(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    return not processes(folder)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Whatever a test starts; ended with the test."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def start(
    words: list[str], cache: Path, started: list[subprocess.Popen[str]], **variables: str
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **variables},
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )
    started.append(process)
    return process


@pytest.mark.thorough
def test_a_prefetch_that_kills_the_compiler_is_told_and_other_ranks_stay(
    tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]
) -> None:
    swap = (
        'swap_config={"swap": true, "layer_swap": [{"backward_prefetch": 400, "layers": [0, 1]}, '
        '{"backward_prefetch": 1, "layers": [2, 3]}]}'
    )
    for attempt in range(3):  # MindSpore reads in front of a vector, and may live on with what it finds there
        keep = tmp_path / f"keep{attempt}"
        process = start(command(keep, "--set", swap, layers=4), cache, started, MALLOC_PERTURB_="165")
        out, err = process.communicate(timeout=400)
        assert out, err
        first, last = json.loads(out)
        if process.returncode:
            break
    assert process.returncode == 1
    assert first["outcome"] == "crashed inside MindSpore"
    assert "SIGSEGV" in first["detail"]
    assert first["findings"][0]["path"] == "swap_config.layer_swap[0].backward_prefetch"
    assert last["outcome"] == "completed"
    assert last["used_peak_bytes"] > 0
    assert none_left(keep)


def test_an_optimizer_that_there_is_not_is_told_at_its_line(
    tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]
) -> None:
    process = start(command(tmp_path / "keep", "--ranks", "0", "--set", "optimizer.type=AdamWW"), cache, started)
    out, err = process.communicate(timeout=400)
    assert out, err
    (finding,) = json.loads(out)[0]["findings"]
    assert (finding["rule"], finding["path"]) == ("framework-error", "optimizer.type")
    assert EXAMPLE.read_text().splitlines()[finding["line"] - 1].strip() == "type: AdamW"


def test_with_an_optimizer_that_is_known_to_be_gone_nothing_is_started(
    tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]
) -> None:
    words = ("--ranks", "0", "--set", "optimizer.type=FusedAdamWeightDecay")
    process = start(command(tmp_path / "keep", *words), cache, started)
    out, err = process.communicate(timeout=400)
    assert (process.returncode, out) == (1, "")
    assert "[no-optimizer]" in err


@pytest.mark.thorough
def test_a_rank_that_is_killed_for_memory_is_told_and_the_other_one_ends_well(
    tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]
) -> None:
    keep = tmp_path / "keep"
    process = start(command(keep, "--jobs", "2"), cache, started)
    victim = next(pid for pid in children(keep, 2, process) if "rank_4" in Path(f"/proc/{pid}/cmdline").read_text())
    os.kill(victim, signal.SIGKILL)  # what the kernel does when memory runs out
    out, err = process.communicate(timeout=400)
    assert out, err
    first, last = json.loads(out)
    assert (first["outcome"], process.returncode) == ("completed", 1)
    assert last["outcome"] == "was killed, probably for lack of host memory"
    assert last["detail"] == "SIGKILL"
    assert none_left(keep)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_ends_every_child_and_leaves_no_half_written_report(
    number: signal.Signals, tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]
) -> None:
    keep = tmp_path / "keep"
    process = start(command(keep, "--jobs", "2"), cache, started)
    children(keep, 2, process)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert none_left(keep)
    assert not list((cache / "swapconf").glob("dryrun/*"))


def test_a_full_disk_is_told(tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no user mount a small disk (unshare -rm)")
    keep = tmp_path / "keep"
    keep.mkdir()
    script = 'mount -t tmpfs -o size=400k tmpfs "$0" && exec "$@"'
    words = [unshare, "-rm", "sh", "-c", script, str(keep), *command(keep, "--ranks", "0")]
    process = start(words, cache, started)
    out, err = process.communicate(timeout=400)
    assert out, err
    (report,) = json.loads(out)
    assert report["outcome"] == "ran out of disk space", report
    assert process.returncode == 1
    assert none_left(keep)


@pytest.mark.thorough
def test_ranks_run_on_a_dask_cluster(tmp_path: Path, cache: Path, started: list[subprocess.Popen[str]]) -> None:
    script = f"""
import subprocess, sys
from distributed import LocalCluster
with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
    done = subprocess.run([*{command(tmp_path / "keep")!r}, "--dask", cluster.scheduler_address])
sys.exit(done.returncode)
"""
    process = start([sys.executable, "-c", f"if __name__ == '__main__':\n{_indented(script)}"], cache, started)
    out, err = process.communicate(timeout=400)
    reports: list[dict[str, Any]] = json.loads(out) if out else []
    assert [(report["rank"], report["outcome"]) for report in reports] == [(0, "completed"), (4, "completed")], err
    assert process.returncode == 0
    assert none_left(tmp_path / "keep")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())
