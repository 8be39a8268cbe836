"""A plan of a PyNative YAML and the true run of it: it takes what was predicted, and no more than it may."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swapconf.words.units import MIB
from tests.helpers import ROOT
from tests.mindspore import test_pynative as pair

pytestmark = [*pair.pytestmark, pytest.mark.thorough]
BUDGET_MIB = 125  # of 172 without swap and recompute; full recompute takes 105


def test_a_plan_is_confirmed_by_a_true_run(tmp_path: Path) -> None:
    """Sets of modules and a whole layer in one plan; the run without either is made on the way."""
    file = tmp_path / "qwen3.yaml"
    file.write_bytes((ROOT / "configs/pynative/qwen3.yaml").read_bytes())
    command = [str(pair.PYTHON), "-m", "swapconf", "plan", str(file), "--budget", f"{BUDGET_MIB}MB", "--confirm"]
    done = subprocess.run(
        [*command, "--hardware", "ascend_910b2", "--keep", str(tmp_path / "plain"), "--write", "--format", "json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    (predicted,), (true,) = found["ranks"], found["confirmed"]
    assert {entry["operator"] == "" for entry in found["entries"]} == {True, False}
    assert true["fits"]
    assert true["with_fragments_peak_bytes"] == pytest.approx(predicted["with_fragments_peak_bytes"], rel=0.03)
    assert true["used_peak_bytes"] < predicted["with_fragments_peak_bytes"] <= BUDGET_MIB * MIB
    assert true["used_peak_bytes"] <= predicted["safe_used_peak_bytes"] <= BUDGET_MIB * MIB
    assert true["used_peak_bytes"] == pytest.approx(predicted["used_peak_bytes"], rel=0.001)
    assert file.read_text(encoding="utf-8") == found["yaml"]
