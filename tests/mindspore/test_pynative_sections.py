"""Random sections, mistakes among them: mindformers 2.0.0 stops where a study refuses, and does what it says elsewhere.

The real models are built without memory, once for each case, and the real `apply_ac` gets the sections as they stand in
the YAML. Not in it: communication, of which there is none on one card, and layers both swapped and recomputed.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from swapconf.config.yaml_document import parse
from swapconf.decide import module_lines, modules
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT
from tests.mindspore import test_pynative as pair

pytestmark = pair.pytestmark
VERSIONS = Versions(mindspore="2.10.0", mindformers="2.0.0")
SEEDS = (5, 52417)
CASES = 60
LAYERS = 4
SCRIPT = """
import json, sys
import mindspore, yaml
from swapconf.dryrun.pynative import hyper_parallel_stand_in
hyper_parallel_stand_in.in_use()
mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
mindspore.set_device("CPU")
from mindformers.pynative.trainer.trainer import patch_pynative_modules
patch_pynative_modules()
from mindformers.pynative.base_models.gpt.gpt_model import GPTModel
from mindformers.pynative.config import TrainConfig
from mindformers.pynative.distributed import activation_checkpoint as upstream
from mindformers.pynative.trainer.utils import _build_model
told, lines = [], []
upstream.logger.info = lambda line, *_values: lines.append(line)
for text in json.load(open(sys.argv[1])):
    lines.clear()
    upstream._config_list = {}
    try:
        config = TrainConfig.from_dict(yaml.safe_load(text))
        with mindspore.DeviceCtx("meta"):
            whole = _build_model(config)
        model = next(cell for _, cell in whole.cells_and_names() if isinstance(cell, GPTModel))
        extra = getattr(model, "mtp", None)
        upstream.apply_ac(model.decoder, config.recompute, config.recompute_comm, config.swap, 1, mtp_block=extra)
        told.append(sorted(line for line in lines if line.startswith("Set ")))
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
print("TOLD" + json.dumps(told))
"""
PATHS = (
    *("mlp", "self_attention", ".*core_attention", ".*linear_qkv", ".*layernorm", "mlp.linear_fc1", r"mlp\.experts"),
    *(
        ".*",
        "feed_forward",
        "MLP",
        "(mlp",
        "mlp|input_layernorm",
        "",
        " ",
        "mlp.*",
        "^mlp$",
        "layers.0.mlp",
        ".*router",
    ),
    *(
        "transformer_layer.mlp",
        ".*construct",
        "self_attention.apply_rotary_pos_emb",
        ".*dropout",
        "mlp.activation_func",
    ),
)
MISTAKEN_LAYERS: tuple[object, ...] = (
    *(None, "0-1", 0, True, {}, [[0]], [True], [1.0], ["a"], ["-1"], ["0 - 1"], ["1-0"], ["0-99"], ["1", "0"], [-1]),
    *([" 1 "], ["00"], ["0-"], [None], ["0,1"], ["all"], ["0-1-2"]),
)
MISTAKEN_SWAPS: tuple[tuple[str, object], ...] = (
    *(("default_prefetch", prefetch) for prefetch in (0, -1, LAYERS, "1", True, None)),
    ("layer_swap", {"layers": ["0"]}),
    ("layer_swap", [{}]),
    ("layer_swap", ["0"]),
    ("layer_swap", [{"layers": ["0"], "prefetch": 1}]),
    ("op_swap", {"mlp": ["0"]}),
    ("op_swap", [{"op_name": "mlp"}]),
    ("op_swap", [{"op_name": None, "layers": ["0"]}]),
    *(("enable", value) for value in (None, "True", 1)),
    ("backward_prefetch", 1),
)
MISTAKEN_RECOMPUTES: tuple[tuple[str, object], ...] = (
    *(("mode", mode) for mode in ("none", "Full", True, None)),
    *(("select_module", modules) for modules in (["mlp"], "mlp", {"mlp": "0-1"}, {"mlp": None}, {})),
    *(("exclude_op", names) for names in ({"mlp": ["0"]}, [" "], "MatMul")),
    ("select_recompute", True),
)


def layers(rng: Random, count: int) -> object:
    if rng.random() < 0.05:
        return rng.choice(MISTAKEN_LAYERS)
    first = rng.randrange(count)
    last = rng.randrange(first, count)
    return [rng.choice([str(first), first]) if first == last else f"{first}-{last}"]


def section(rng: Random) -> dict[str, Any]:
    """One that is on: where it is off, a study says more of it than mindformers looks at."""
    if rng.random() < 0.03:
        return {rng.choice(["swap", "recompute", "recompute_comm"]): None}
    if rng.random() < 0.5:
        swap: dict[str, Any] = {"enable": True, "default_prefetch": rng.choice([1, 1, 2])}
        if rng.random() < 0.7:
            swap["layer_swap"] = [{"layers": layers(rng, LAYERS - 2)}]
        if rng.random() < 0.6:
            several = range(rng.choice([1, 2]))
            swap["op_swap"] = [{"op_name": rng.choice(PATHS), "layers": layers(rng, LAYERS - 2)} for _ in several]
        return {"swap": mistaken(rng, swap, MISTAKEN_SWAPS)}
    recompute: dict[str, Any] = {"mode": rng.choice(["full", "select", "select"])}
    if recompute["mode"] == "full" or rng.random() < 0.3:
        recompute["full_recompute_layer"] = layers(rng, LAYERS)
    if recompute["mode"] == "select":
        recompute["select_module"] = {rng.choice(PATHS): layers(rng, LAYERS) for _ in range(rng.choice([1, 2]))}
    return {"recompute": mistaken(rng, recompute, MISTAKEN_RECOMPUTES)}


def mistaken(rng: Random, given: dict[str, Any], mistakes: tuple[tuple[str, object], ...]) -> dict[str, Any]:
    return {**given, **dict([rng.choice(mistakes)])} if rng.random() < 0.2 else given


def written(rng: Random) -> str:
    model = rng.choice(["qwen3", "deepseek_v3"])
    settings = yaml.safe_load((ROOT / f"configs/pynative/{model}.yaml").read_text(encoding="utf-8"))
    settings["training"]["global_batch_size"] = 8
    return yaml.safe_dump({**settings, **section(rng)}, sort_keys=False)


def promised(study: Study) -> list[str]:
    known = modules.modules_of(study.config, VERSIONS.mindformers)
    lines = [line for layer, here in modules.by_layer(study.config, known) for line in module_lines.lines(layer, here)]
    return sorted(line for line in lines if line.startswith("Set "))


@pytest.mark.parametrize("seed", SEEDS)
def test_mindformers_stops_where_a_study_refuses_and_else_does_what_it_says(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    texts = [written(rng) for _ in range(CASES)]
    (tmp_path / "cases.json").write_text(json.dumps(texts))
    done = subprocess.run(
        [str(pair.PYTHON), "-c", SCRIPT, str(tmp_path / "cases.json")],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    stopped = 0
    for text, real in zip(texts, json.loads(done.stdout.rpartition("TOLD")[2]), strict=True):
        study = study_document(parse(text, "train.yaml"), VERSIONS, {})
        if isinstance(real, str):
            stopped += 1
            assert study.is_refused, (real, text)
        else:
            assert not study.is_refused, (study.findings, text)
            assert promised(study) == real, text
    assert CASES // 4 < stopped < CASES * 3 // 4
