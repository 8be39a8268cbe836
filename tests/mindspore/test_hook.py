"""The ways in which swapconf takes the place of LayerSetting in a training process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from swapconf.upstream.seams import missing
from tests.mindspore.support.models import (
    ROOT,
    TINY_LLAMA,
    Job,
    build,
    decided_swaps,
    environment,
    strategy_of,
    write_config,
)

pytestmark = pytest.mark.mindspore

USER_SCRIPT = Path(__file__).parent / "support" / "user_script.py"
RUN_MINDFORMER = ROOT / "scripts" / "run_mindformer.py"
TIMEOUT_SECONDS = 120
LAYER_SWAP = Job(example="llama2_7b/example2_layer_swap.yaml", changes=TINY_LLAMA)
NESTED_COUNTS = Job(
    example="llama2_7b/example2_layer_swap.yaml",
    changes={
        **TINY_LLAMA,
        "model.model_config.num_layers": 8,
        "model.model_config.pp_interleave_num": 2,
        "parallel_config.pipeline_stage": 2,
        "parallel_config.micro_batch_num": 2,
        "parallel_config.model_parallel": 2,
        "parallel.pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"},
        "swap_config": {"swap": False},
        "recompute_config": {"recompute": [[9, 0], [1, True]]},
    },
)


def start(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def start_user_script(folder: Path, job: Job, *flags: str) -> subprocess.CompletedProcess[str]:
    config = write_config(job, folder / "train.yaml")
    return start(USER_SCRIPT, "--config", config, "--out", folder / "out.json", *flags, cwd=folder)


def user_script(folder: Path, job: Job, *flags: str) -> dict[str, Any]:
    done = start_user_script(folder, job, *flags)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    found: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("moment", ["first", "last"])
def test_install_works_before_and_after_mindformers_is_imported(tmp_path: Path, moment: str) -> None:
    found = user_script(tmp_path, LAYER_SWAP, "--install", moment)
    swapped = {
        path: attributes["backward_prefetch"]
        for path, attributes in found["primitives"].items()
        if attributes.get("offload")
    }
    assert swapped == decided_swaps(strategy_of(tmp_path / "train.yaml"))
    assert found["unchanged"]


def test_the_installed_mindformers_has_every_seam() -> None:
    assert missing() == ()


STEPPING_ASIDE = """
import runpy, sys
from swapconf.upstream import seams
seams.missing = lambda: ("mindformers.tools.logger has no logger",)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.thorough
def test_where_a_seam_is_missing_the_model_is_that_of_plain_mindformers(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = user_script(tmp_path / "plain", LAYER_SWAP, "--install", "never")
    config = write_config(LAYER_SWAP, tmp_path / "train.yaml")
    done = start(
        "-c",
        STEPPING_ASIDE,
        USER_SCRIPT,
        "--config",
        config,
        "--out",
        tmp_path / "out.json",
        "--install",
        "first",
        cwd=tmp_path,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stderr.count("swapconf: steps aside") == 1
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert found["primitives"] == plain["primitives"]
    assert any(attributes.get("offload") for attributes in found["primitives"].values())


def test_the_users_lists_are_not_written_into(tmp_path: Path) -> None:
    assert user_script(tmp_path, NESTED_COUNTS, "--install", "first")["unchanged"]
    # mindformers itself writes numpy numbers into these lists, and then cannot print the config
    alone = start_user_script(tmp_path, NESTED_COUNTS, "--install", "never")
    assert "Object of type int32 is not JSON serializable" in alone.stderr


def bad_config(folder: Path) -> Path:
    config = yaml.safe_load((ROOT / "configs" / LAYER_SWAP.example).read_text(encoding="utf-8"))
    config["swap_config"]["layer_swap"][0].update(backward_prefetch=0, layers="True")
    file = folder / "bad.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


def test_a_config_with_errors_stops_before_mindspore_is_imported(tmp_path: Path) -> None:
    config = bad_config(tmp_path)
    done = start("-X", "importtime", "-m", "swapconf", "run", RUN_MINDFORMER, "--config", config, cwd=tmp_path)
    assert done.returncode == 1
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "swapconf.train" in imported
    assert not [name for name in imported if name.partition(".")[0] in ("mindspore", "mindformers")]
    said = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    for place in ("layer_swap[0].backward_prefetch: error:", "layer_swap[0].layers: error:"):
        assert [line for line in said if line.startswith(str(config)) and place in line]
    assert said[-1].startswith("swapconf: nothing was started")


@pytest.mark.parametrize("launcher", ["swapconf run", "install"])
def test_an_error_that_the_script_makes_stops_before_a_model_is_built(tmp_path: Path, launcher: str) -> None:
    config = write_config(LAYER_SWAP, tmp_path / "train.yaml")
    words = {"swapconf run": ("-m", "swapconf", "run", USER_SCRIPT), "install": (USER_SCRIPT, "--install", "first")}
    done = start(*words[launcher], "--config", config, "--out", tmp_path / "out.json", "--break", cwd=tmp_path)
    assert done.returncode == 1
    assert "swap_config.layer_swap[0].layers: error:" in done.stderr
    assert "Build Net For Train" not in done.stdout
    assert not (tmp_path / "out.json").exists()


@pytest.mark.thorough
def test_lazy_inline_stays_on_where_swap_needs_it(tmp_path: Path) -> None:
    once = {**TINY_LLAMA, "runner_config": {"gradient_accumulation_steps": 1}}
    built = build(
        {
            "ours": Job(example=LAYER_SWAP.example, changes=once, ascend=True),
            "upstream": Job(example=LAYER_SWAP.example, changes=once, ascend=True, swapconf=False),
            "without swap": Job(
                example=LAYER_SWAP.example, ascend=True, changes={**once, "swap_config": {"swap": False}}
            ),
        },
        tmp_path,
    )
    line = "swapconf keeps lazy inline on: swap needs it (ENABLE_LAZY_INLINE_NO_PIPELINE=1)"
    assert [model.status for model in built.values()] == [0, 0, 0]
    assert {name: model.cells[""]["lazy_inline"] for name, model in built.items()} == {
        "ours": True,
        "upstream": False,
        "without swap": False,
    }
    assert {name: model.messages.count(line) for name, model in built.items()} == {
        "ours": 1,
        "upstream": 0,
        "without swap": 0,
    }
