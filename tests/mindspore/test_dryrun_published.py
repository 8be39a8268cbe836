"""What published YAMLs have and the project's own do not: O1, graphs, files beside them, models from elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import ROOT

pytestmark = pytest.mark.mindspore

CODE = """
from beside_the_yaml import EXPLAINED
from mindformers.models.llama.llama import LlamaForCausalLM
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister


@MindFormerRegister.register(MindFormerModuleType.MODELS)
class MineForCausalLM(LlamaForCausalLM):
    __doc__ = EXPLAINED


def quantised():
    import a_package_that_no_training_needs
"""
HUGGING_FACE = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_act": "silu",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "num_hidden_layers": 2,
    "vocab_size": 256,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
}


def dryrun(folder: Path, settings: dict[str, Any], *words: str) -> tuple[dict[str, Any], str]:
    """The report of rank 0 of a YAML in a folder, started there, and what was said beside it."""
    (folder / "train.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "swapconf",
            "dryrun",
            "train.yaml",
            "--no-cache",
            "--ranks",
            "0",
            "--keep",
            "kept",
            "--format",
            "json",
            *words,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout, done.stderr
    (report,) = json.loads(done.stdout)
    return report, done.stderr


def own_peak(folder: Path) -> int:
    found: int = json.loads((folder / "kept/rank_0/result.json").read_text())["max_memory_allocated_bytes"]
    return found


@pytest.mark.thorough
def test_a_legacy_model_of_ones_own_at_o1_with_graphs_and_labels(tmp_path: Path) -> None:
    settings: Any = yaml.safe_load((ROOT / "configs/llama2_7b/example1_default_swap.yaml").read_text())
    settings["swap_config"] = {"swap": False}
    settings["context"] |= {"jit_config": {"jit_level": "O1"}, "save_graphs": False, "save_graphs_path": "./graph"}
    settings["context"].setdefault("ascend_config", {})["parallel_speed_up_json_path"] = "./nowhere.json"
    settings["train_dataset"] |= {
        "input_columns": ["input_ids", "target_ids", "attention_mask"],
        "construct_args_key": ["input_ids", "labels"],
    }
    settings["model"]["arch"] = {"type": "MineForCausalLM", "auto_register": "mine.MineForCausalLM"}
    settings["model"]["model_config"] |= {
        "hidden_size": 64,
        "num_heads": 4,
        "num_layers": 2,
        "seq_length": 64,
        "vocab_size": 128,
        "multiple_of": 16,
    }
    (tmp_path / "code").mkdir()
    (tmp_path / "code/mine.py").write_text(CODE)
    (tmp_path / "beside_the_yaml.py").write_text('EXPLAINED = "A model that mindformers does not have."')
    report, told = dryrun(tmp_path, settings, "--register-path", "code")
    assert report["outcome"] == "completed", (report, told)
    assert report["used_peak_bytes"] == own_peak(tmp_path)
    assert (tmp_path / "kept/rank_0/execute_order.csv").exists()


def test_a_model_from_a_hugging_face_folder_and_a_device_that_is_none(tmp_path: Path) -> None:
    settings: Any = yaml.safe_load((ROOT / "configs/small/qwen3_default_swap.yaml").read_text())
    settings["model"]["model_config"] = {
        key: value
        for key, value in settings["model"]["model_config"].items()
        if key not in {*HUGGING_FACE, "num_layers", "seq_length"}
    }
    settings["pretrained_model_dir"] = "hub/tiny"
    settings["context"]["device_target"] = "CPU"
    (tmp_path / "hub/tiny").mkdir(parents=True)
    (tmp_path / "hub/tiny/config.json").write_text(json.dumps(HUGGING_FACE))
    (tmp_path / "hub/tiny/model.safetensors").write_text("weights that no dry run reads")
    report, told = dryrun(tmp_path, settings)
    assert report["outcome"] == "completed", (report, told)
    assert report["used_peak_bytes"] == own_peak(tmp_path)
    assert {move["layer"] for move in report["moved"] if move["tensors"]} == {"0"}  # the layers of its stage
    assert "pretrained-config" not in told
