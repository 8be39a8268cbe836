"""The host runtime shim with the MindSpore that is installed: it loads, simulates, reports a peak and ends cleanly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swapconf.dryrun.environment import ChildEnvironment, prepare
from tests.helpers import ROOT

pytestmark = pytest.mark.mindspore

TARGET = "import mindspore; mindspore.set_device('Ascend'); "
ONE_TENSOR = TARGET + "print((mindspore.Tensor([1.0]) + 1).shape)"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> ChildEnvironment:
    base = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    result = prepare(sys.executable, base)
    if result.source != "shim":
        pytest.skip("this machine has a CANN")
    return result


def run(variables: dict[str, str], folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        cwd=folder,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )


def test_built_in_seconds_and_found_at_once(prepared: ChildEnvironment) -> None:
    summary = prepared.summary()["shim"]
    assert summary["symbols"] > 1000
    assert summary["build_seconds"] < 60  # 4 s on two idle cores
    again = prepare(sys.executable, prepared.variables)
    assert again.summary()["shim"]["was_cached"]
    assert again.shim_dir == prepared.shim_dir
    assert again.variables == prepared.variables


def test_one_layer_runs_and_the_process_ends_cleanly(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "shim_matrix.py"],
        text=True,
        capture_output=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["exit_code"] == 0
    assert row["peak"].startswith("Used peak memory usage (without fragments): ")


@pytest.mark.parametrize(
    "program",
    ["import mindspore", TARGET + "mindspore.communication.init()", ONE_TENSOR, ONE_TENSOR + "; raise SystemExit(0)"],
)
def test_every_way_to_the_end_of_the_process_is_clean(prepared: ChildEnvironment, tmp_path: Path, program: str) -> None:
    done = run({**prepared.variables, "RANK_ID": "0", "RANK_SIZE": "8"}, tmp_path, program)
    assert done.returncode == 0, done.stdout[-2000:]


def test_without_simulation_nothing_runs_on_the_shim(prepared: ChildEnvironment, tmp_path: Path) -> None:
    """Nobody can train on it by mistake: MindSpore finds a device without memory."""
    variables = {name: value for name, value in prepared.variables.items() if name != "MS_SIMULATION_LEVEL"}
    done = run(variables, tmp_path, ONE_TENSOR)
    assert done.returncode != 0
    assert "Get Device MOC memory size failed" in done.stdout


def test_this_process_is_as_before(prepared: ChildEnvironment) -> None:
    shim = str(prepared.shim_dir)
    assert not any(shim in value for value in os.environ.values())
    assert "MS_SIMULATION_LEVEL" not in os.environ


def test_threads_of_the_simulated_device_wait_instead_of_running_for_nothing(
    prepared: ChildEnvironment, tmp_path: Path
) -> None:
    idle = ONE_TENSOR + (
        "; import time; spent, start = time.process_time(), time.monotonic(); time.sleep(3); "
        "print('share', (time.process_time() - spent) / (time.monotonic() - start))"
    )
    busy = [
        float(run(variables, tmp_path, idle).stdout.rpartition("share ")[2].split()[0])
        for variables in (
            prepared.variables,
            {name: value for name, value in prepared.variables.items() if name != "LD_PRELOAD"},
        )
    ]
    assert busy[0] < busy[1] / 2
