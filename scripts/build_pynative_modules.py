#!/usr/bin/env python
"""What can be named in the layers of mindformers' PyNative models, read from the real ones, as the catalog of modules.

    PYTHONPATH=. PYTHON scripts/build_pynative_modules.py [--out FOLDER]

PYTHON: an interpreter with mindformers 2.0.0 or later and MindSpore 2.10.0 (`scripts/generations.sh pynative` makes
one). Each model of configs/pynative is built without memory, as it is and with one setting changed at a time; settings
that change what its layers have are those that a YAML is looked up by. hyper_parallel may be missing.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from swapconf.models.pynative_modules import CLASS
from swapconf.train.pynative_hook import is_fixed

ROOT = Path(__file__).resolve().parents[1]
# settings that may change a layer, with the values to try; None is: not given
TRIED: dict[str, tuple[Any, ...]] = {
    "add_bias_linear": (True, False, None),
    "attention_bias": (True, False, None),
    "apply_dsa_kernel_fusion": (True, False, None),
    "apply_rope_fusion": (True, False, None),
    "attention_dropout": (0.0, 0.1, None),
    "gated_linear_unit": (True, False, None),
    "fp32_residual_connection": (True, False, None),
    "hidden_act": ("silu", "gelu", "swiglu", None),
    "hidden_dropout": (0.0, 0.1, None),
    "input_sliced_sig": (True, False, None),
    "mla_qkv_concat": (True, False, None),
    "moe_grouped_gemm": (True, None),
    "moe_router_enable_expert_bias": (True, False, None),
    "moe_router_load_balancing_type": ("seq_aux_loss", "gbs_aux_loss", None),
    "n_shared_experts": (0, 1, 2, None),
    "normalization": ("RMSNorm", None),
    "num_hash_layers": (0, 6),
    "position_embedding_type": ("rope", "yarn", None),
    "q_lora_rank": (128, None),
    "qk_layernorm": (True, False, None),
    "qkv_concat": (True, False, None),
    "scoring_func": ("sigmoid", "softmax", None),
    "tie_word_embeddings": (True, False, None),
    "use_contiguous_weight_layout_attention": (True, False, None),
    "use_interleaved_weight_layout_mlp": (True, False, None),
    "use_flash_attention": (True, False, None),
    "use_fused_mla": (True, False, None),
}
# settings of which no other value can be built without hyper_parallel: with one, nothing is known
PACKAGED = ("apply_dsa_kernel_fusion",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "swapconf" / "models" / "pynative")
    folder = parser.parse_args().out / mindformers_version()
    prepare()
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((ROOT / "configs" / "pynative").glob("*.yaml")):
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
        text = json.dumps(catalog(settings), indent=1, sort_keys=True)
        (folder / file.with_suffix(".json").name).write_text(text + "\n", encoding="utf-8")


def mindformers_version() -> str:
    return version("mindformers")


def prepare() -> None:
    import mindspore

    from swapconf.dryrun.pynative import hyper_parallel_stand_in

    hyper_parallel_stand_in.in_use()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_device("CPU")
    from mindformers.pynative.trainer.trainer import patch_pynative_modules

    patch_pynative_modules()


def catalog(settings: dict[str, Any]) -> dict[str, Any]:
    """``plain``: by setting that matters, its values that give the layers of the YAML; ``changed``: one other value
    each, and the layers with it. A layer is a place in ``trees``, by its kind."""
    trees: list[dict[str, Any]] = []

    def places(found: dict[str, Any]) -> dict[str, int]:
        trees.extend(tree for tree in found.values() if tree not in trees)
        return {kind: trees.index(tree) for kind, tree in found.items()}

    plain = layers(settings)
    made: dict[str, Any] = {"layers": places(plain), "plain": {}, "changed": []}
    for key in TRIED:
        same, others = [settings["model"].get(key)], []
        for value, changed in variations(settings, key):
            try:
                found = layers(changed)
            except Exception as error:  # a value that this model does not take
                print(f"{settings['model']['model_type']}: {key}={value!r} is not built: {str(error)[:100]}")
                if key in PACKAGED and key in settings["model"]:
                    made["plain"][key] = same
                continue
            if found == plain:
                same.append(value)
            else:
                others.append({"setting": key, "value": value, "layers": places(found)})
        if others:
            made["plain"][key] = same
            made["changed"] += others
    return {
        "made_with": {"mindformers": mindformers_version(), "mindspore": version("mindspore")},
        **made,
        "trees": trees,
    }


def variations(settings: dict[str, Any], key: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    for value in TRIED[key]:
        if settings["model"].get(key) != value:
            changed = copy.deepcopy(settings)
            changed["model"].pop(key, None)
            if value is not None:
                changed["model"][key] = value
            yield value, changed


def layers(settings: dict[str, Any]) -> dict[str, Any]:
    """The tree of each kind of layer: cells by name, functions in a list under the empty name, those of a cell's class
    under CLASS. Layers of DeepSeek-V4 are also told apart by how they compress keys and values."""
    import mindspore
    from mindformers.pynative.base_models.gpt.gpt_model import GPTModel
    from mindformers.pynative.config import TrainConfig
    from mindformers.pynative.distributed import activation_checkpoint as upstream
    from mindformers.pynative.trainer.utils import _build_model

    with mindspore.DeviceCtx("meta"):
        model = _build_model(TrainConfig.from_dict(copy.deepcopy(settings)))
    inner = next(cell for _, cell in model.cells_and_names() if isinstance(cell, GPTModel))
    extra = getattr(inner, "mtp", None)
    view = inner.decoder if extra is None else upstream._MtpLayerView(inner.decoder, extra)
    count = int(inner.decoder.config.num_layers)
    ratios = getattr(inner.decoder.config, "csa_compress_ratios", None)
    found: dict[str, Any] = {}
    for number, paths in upstream._get_modules_and_ops_list(view).items():
        layer = view.layers[number]
        kind = "mtp" if number >= count else "experts" if "mlp.experts" in paths else "dense"
        kind = kind if ratios is None else f"{kind} {ratios[number]}"
        tree = as_tree(layer, paths)
        assert found.setdefault(kind, tree) == tree, f"layers of the kind {kind} differ"
    return found


def as_tree(layer: Any, paths: list[str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in paths:
        *above, name = path.split(".")
        node, cell = tree, layer
        for one in above:
            cell = cell._cells.get(one) if cell is not None else None
            node = node.setdefault(one, {})
        if cell is not None and name in cell._cells:
            node.setdefault(name, {})
        else:
            node.setdefault(CLASS if is_fixed(cell, name) else "", []).append(name)
    for node in every(tree):
        for kind in ("", CLASS):
            if kind in node:
                node[kind] = " ".join(sorted(node[kind]))
    return tree


def every(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for name, below in tree.items():
        if name not in ("", CLASS):
            yield from every(below)


if __name__ == "__main__":
    os.environ.setdefault("GLOG_v", "3")
    main()
