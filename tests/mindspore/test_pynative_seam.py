"""The seam of PyNative training on real models of mindformers 2.0.0: what is put around what, and what is logged."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import ROOT
from tests.mindspore import test_pynative as pair

pytestmark = pair.pytestmark
LINE = re.compile(r"(?:INFO - )((?:Set|Skip) .* at layer \d+.*)$", re.MULTILINE)
# builds the model of a YAML without memory, as mindformers' trainer does, and applies what it asks for
SCRIPT = """
import json, sys
import mindspore, yaml
from swapconf.dryrun.pynative import hyper_parallel_stand_in
hyper_parallel_stand_in.in_use()
mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
mindspore.set_device("CPU")
from mindformers.pynative.trainer.trainer import patch_pynative_modules
patch_pynative_modules()
from mindformers.pynative.base_models.gpt import parallelize
from mindformers.pynative.base_models.gpt.gpt_model import GPTModel
from mindformers.pynative.config import TrainConfig
from mindformers.pynative.trainer.utils import _build_model
config = TrainConfig.from_dict(yaml.safe_load(open(sys.argv[2])))
with mindspore.DeviceCtx("meta"):
    whole = _build_model(config)
model = next(cell for _, cell in whole.cells_and_names() if isinstance(cell, GPTModel))
if "--other" in sys.argv:
    config.swap.layer_swap = [{"layers": ["1"]}]
extra = getattr(model, "mtp", None)
parallelize.apply_ac(model.decoder, config.recompute, config.recompute_comm, config.swap, 1, mtp_block=extra)
def around(cell, path=""):
    for name, inner in cell._cells.items():
        kind = type(inner).__name__
        here = path if name == "_ckpt_wrapped_module" else f"{path}.{name}".lstrip(".")
        if kind in ("CheckpointWrapper", "SwapWrapper"):
            yield here, kind
        yield from around(inner, here)
found = [pair for part in (model.decoder, extra) if part is not None for pair in around(part)]
print("AROUND" + json.dumps(found))
"""
QWEN3 = {
    "recompute": {
        "mode": "select",
        "full_recompute_layer": ["3"],
        "select_module": {"mlp": ["1"], ".*linear_qkv": ["2"]},
    },
    "recompute_comm": {"enable": True, "select_module": {"self_attention\\.reshape": ["0"]}},
    "swap": {
        "enable": True,
        "default_prefetch": 1,
        "layer_swap": [{"layers": ["0-1"]}],
        "op_swap": [
            {"op_name": ".*core_attention", "layers": ["1-2"]},
            {"op_name": "self_attention", "layers": ["2"]},
            {"op_name": "feed_forward", "layers": ["2"]},
        ],
    },
}
DEEPSEEK = {
    "recompute": {"mode": "select", "select_module": {"mlp\\.experts": ["0-2"], "transformer_layer\\.mlp": ["3"]}},
    "swap": {"enable": True, "layer_swap": [{"layers": ["0-2"]}]},
}
DEEPSEEK_V4 = {
    "recompute": {"mode": "select", "select_module": {"mlp\\.experts": ["2-5"], "transformer_layer\\.mlp": ["6"]}},
    "swap": {"enable": True, "layer_swap": [{"layers": ["0-2"]}]},
}


def written(folder: Path, model: str, sections: dict[str, Any]) -> Path:
    settings = yaml.safe_load((ROOT / f"configs/pynative/{model}.yaml").read_text(encoding="utf-8"))
    settings["training"]["global_batch_size"] = 8
    config = folder / "train.yaml"
    config.write_text(yaml.safe_dump({**settings, **sections}))
    (folder / "script.py").write_text(SCRIPT)
    return config


def swapconf(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(pair.PYTHON), "-m", "swapconf", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ran(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return swapconf("run", config.with_name("script.py"), "--config", config, *words)


@pytest.mark.parametrize(
    ("model", "sections"),
    [
        ("qwen3", QWEN3),
        pytest.param("deepseek_v3", DEEPSEEK, marks=pytest.mark.thorough),
        pytest.param("deepseek_v4", DEEPSEEK_V4, marks=pytest.mark.thorough),
    ],
)
def test_a_run_logs_and_does_what_explain_says(tmp_path: Path, model: str, sections: dict[str, Any]) -> None:
    config = written(tmp_path, model, sections)
    done = ran(config)
    assert done.returncode == 0, done.stderr
    told = json.loads(swapconf("explain", config, "--format", "json").stdout)
    expected = [line for layer in told["log_lines"] for line in layer["lines"]]
    logged = LINE.findall(done.stdout + done.stderr)
    assert sorted(set(logged)) == sorted(expected)
    assert any(line.startswith("Skip ") for line in expected)
    around = json.loads(done.stdout.rpartition("AROUND")[2].splitlines()[0])
    swapped = {path for path, kind in around if kind == "SwapWrapper"}
    again = {path for path, kind in around if kind == "CheckpointWrapper"}
    if model == "qwen3":
        assert swapped == {
            "layers.0",
            "layers.1.self_attention.core_attention",
            "layers.2.self_attention.core_attention",
        }
        assert again == {
            "layers.0.self_attention.reshape",
            "layers.1.mlp",
            "layers.2.self_attention.linear_qkv",
            "layers.3",
        }
    elif model == "deepseek_v4":
        assert swapped == {"layers.0", "layers.1"}
        assert again == {*(f"layers.{layer}.mlp.experts" for layer in range(2, 6)), "layers.0.transformer_layer.mlp"}
    else:
        assert swapped == {"layers.0"}
        assert again == {"layers.1.mlp.experts", "layers.2.mlp.experts", "layers.0.transformer_layer.mlp"}


def test_a_script_that_changes_the_sections_behind_swapconfs_back_is_stopped(tmp_path: Path) -> None:
    done = ran(written(tmp_path, "qwen3", {"swap": QWEN3["swap"]}), "--other", "x")
    assert done.returncode == 1
    assert "mindformers passes another swap to the layers than the config has" in done.stderr


BOTH = (
    "recompute={mode: select, full_recompute_layer: ['3'], select_module: {mlp: ['1']}}",
    "swap={enable: True, default_prefetch: 1, layer_swap: [{layers: ['0-2']}]}",
)


def dry_run_lines(*words: str) -> tuple[dict[str, Any], list[str]]:
    changes = [word for one in BOTH for word in ("--set", one)]
    report, trace, _ = pair.dryrun("qwen3", *changes, *words)
    return report, LINE.findall((Path(trace.folder) / "worker.log").read_text(encoding="utf-8", errors="replace"))


@pytest.mark.thorough
def test_a_dry_run_settles_what_is_both_swapped_and_recomputed_and_does_what_it_logs() -> None:
    report, logged = dry_run_lines("--as-parallel")
    assert sorted(set(logged)) == [
        "Set full recompute at layer 3",
        "Set layer swap at layer 0",
        "Set layer swap at layer 2",
        "Set select recompute at layer 1: mlp",
        "Skip layer swap at layer 1: recomputed there: mlp [pynative-overlap]",
    ]
    assert [item["layer"] for item in report["moved"]] == ["0", "2"]
    assert sorted(item["layer"] for item in report["recomputed"]) == ["1", "3"]
    assert {found["rule"] for found in report["findings"]} <= {"pynative-one-card", "pynative-overlap"}


@pytest.mark.thorough
def test_on_one_card_the_log_says_that_all_of_it_is_skipped() -> None:
    report, logged = dry_run_lines()
    assert report["moved"] == report["recomputed"] == []
    assert {line.rpartition(" ")[2] for line in logged} == {"[pynative-one-card]"}
    assert {line.split()[0] for line in logged} == {"Skip"}
    assert len(set(logged)) == 5


@pytest.mark.thorough
def test_the_catalog_of_modules_is_what_the_real_models_have(tmp_path: Path) -> None:
    subprocess.run(
        [str(pair.PYTHON), str(ROOT / "scripts/build_pynative_modules.py"), "--out", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"},
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
        check=True,
    )
    (made,) = tmp_path.glob("2.*")
    for file in made.iterdir():
        shipped = ROOT / "swapconf/models/pynative" / made.name / file.name
        assert json.loads(file.read_text()) == json.loads(shipped.read_text())
