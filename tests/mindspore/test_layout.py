"""Layouts of a small Qwen3 on two cards, really dry-run: the best is written and confirmed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swapconf.config.overrides import of_file
from swapconf.layout.layout import layout_of
from swapconf.study.study import study_for_check
from tests.helpers import ROOT

pytestmark = [pytest.mark.mindspore, pytest.mark.thorough]

SMALL = (
    "model.model_config.num_hidden_layers=2",
    "parallel_config.data_parallel=1",
    "parallel_config.pipeline_stage=1",
    "parallel_config.micro_batch_num=1",
    "runner_config.gradient_accumulation_steps=4",
    "parallel.dataset_strategy=[[1,1],[1,1],[1,1],[1,1]]",
)
FIXED = ("--fix", "batch_size", "--fix", "use_seq_parallel", "--fix", "enable_parallel_optimizer")


def layout(config: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = ["layout", str(config), "--cards", "2", "--budget", "50GB", "--hardware", "ascend_910b2"]
    sets = [word for change in SMALL for word in ("--set", change)]
    command = [sys.executable, "-m", "swapconf", *words, *sets, *FIXED, *more]
    environment = {**os.environ, "XDG_CACHE_HOME": str(config.parent / "cache")}
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, env=environment, check=False, timeout=3000)


def test_layouts_are_really_run_and_the_best_is_confirmed(tmp_path: Path) -> None:
    config = Path(shutil.copy(ROOT / "configs/small/qwen3_default_swap.yaml", tmp_path / "train.yaml"))
    done = layout(config, "--confirm", "--write", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert {row["layout"] for row in found["layouts"]} == {"dp2 mb1x2", "tp2 mb1x4", "pp2 mb1x4"}
    assert found["as_it_is"]["layout"] == "tp2 mb1x4"
    assert found["layouts"][0]["step_us"] <= found["as_it_is"]["step_us"]
    for rank in found["confirmed"]:
        assert rank["fits"]
        assert rank["predicted_used_peak_bytes"] == pytest.approx(rank["used_peak_bytes"], rel=0.01)
    written = layout_of(study_for_check(of_file(str(config)), os.environ))
    assert written.name == found["layouts"][0]["layout"]
    again = layout(config, "--format", "json")
    assert json.loads(again.stdout)["layouts"] == found["layouts"]
