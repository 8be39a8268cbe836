"""scripts/demo.sh, whole, in the environment that runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.thorough]

DEMO = Path(__file__).resolve().parents[2] / "scripts" / "demo.sh"


def test_the_demo_trains_and_shows_the_documented_lines(tmp_path: Path) -> None:
    output = tmp_path / "a folder"
    done = subprocess.run(
        ["bash", str(DEMO), "--output", str(output)],
        cwd=tmp_path,
        env={**os.environ, "SWAPCONF_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The loss goes down over 10 steps" in done.stdout
    for line in (
        "INFO - Set op_swap at layer 3: attention.flash_attention, value=10",
        "INFO - Set layer swap at layer 3 and value is: 20",
        "INFO - Set op_swap at layer 2: .attention, value=20, .feed_forward, value=15",
        "INFO - Set select recompute at layer 3: feed_forward",
    ):
        assert line in done.stdout.splitlines()
    assert (output / "example4" / "output" / "msrun" / "worker_0.log").is_file()
