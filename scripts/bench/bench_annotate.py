#!/usr/bin/env python3
"""Time to annotate a 32-layer Llama: mindformers' LayerSetting against swapconf's, on the same real cells.

    python scripts/bench/bench_annotate.py [--layers 32] [--repeats 15]

One process, alternating A B A B. Every measurement gets freshly built cells that nothing has touched, and covers the
construction of the LayerSetting and its call on every layer, with the lines that each logs at INFO. Widths are tiny:
annotating does not depend on them. Needs mindspore and mindformers.

swapconf also reviews the whole config once per run, before the model is built; that is a column of its own.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from swapconf.train import hook
from swapconf.train.session import Session

Section = dict[str, Any]


def cases(num_layers: int) -> dict[str, tuple[Section, Section]]:
    """What is asked for: ``swap_config`` and ``recompute_config``."""

    def attention(layers: Any) -> Section:
        return {"op_name": "attention", "backward_prefetch": 20, "layers": layers}

    return {
        "default swap": ({"swap": True, "default_prefetch": 10}, {}),
        "layer swap": ({"swap": True, "layer_swap": [{"backward_prefetch": 20, "layers": True}]}, {}),
        "operator swap": (
            {
                "swap": True,
                "op_swap": [
                    attention(True),
                    {"op_name": r"feed_forward\.w.", "backward_prefetch": 15, "layers": list(range(0, num_layers, 2))},
                ],
            },
            {},
        ),
        "swap and recompute": (
            {"swap": True, "op_swap": [attention(True)]},
            {"select_recompute": {"feed_forward": list(range(0, num_layers, 3))}},
        ),
        "recompute only": ({"swap": False}, {"select_recompute": True, "select_comm_recompute": True}),
    }


@dataclass
class Contender:
    """A LayerSetting, and the parallel_config that it is given for each case."""

    setting: Callable[..., Any]
    parallel_configs: dict[str, Any]

    def annotate(self, case: str, layers: list[Any]) -> float:
        """Seconds."""
        parallel_config = copy.deepcopy(self.parallel_configs[case])
        gc.collect()
        start = time.perf_counter()
        setting = self.setting(len(layers), 0, parallel_config, 1)
        for index, layer in enumerate(layers):
            setting(layer, index)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32, metavar="N")
    parser.add_argument("--repeats", type=int, default=15, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # mindformers keeps its log files where it is started
        measure(options.layers, options.repeats, _silence())


def measure(num_layers: int, repeats: int, out: TextIO) -> None:
    asked = cases(num_layers)
    theirs = _contender(asked)
    session = Session()
    hook.install(session)
    ours = _contender(asked)

    print(
        f"{num_layers} layers; milliseconds, median (least to most) of {repeats}; first: the first call of a process",
        file=out,
    )
    print(f"{'':19}{'mindformers':>22}{'swapconf':>22}{'ratio':>7}{'swapconf first':>16}{'review':>8}", file=out)
    for case, (swap, recompute) in asked.items():
        start = time.perf_counter()
        session.review(_training_config(num_layers, swap, recompute))
        review = time.perf_counter() - start
        times: dict[int, list[float]] = {id(theirs): [], id(ours): []}
        for _ in range(repeats + 1):
            for contender in (theirs, ours):
                times[id(contender)].append(contender.annotate(case, _layers(num_layers)))
        base, (first, *own) = times[id(theirs)][1:], times[id(ours)]
        print(
            f"{case:19}{_spread(base):>22}{_spread(own):>22}{statistics.median(own) / statistics.median(base):7.2f}"
            f"{first * 1e3:16.1f}{review * 1e3:8.1f}",
            file=out,
            flush=True,
        )


def _contender(asked: dict[str, tuple[Section, Section]]) -> Contender:
    """With what mindformers has under these names at the moment: its own, or swapconf's after ``hook.install``."""
    from mindformers.modules.transformer import (
        TransformerOpParallelConfig,
        TransformerRecomputeConfig,
        TransformerSwapConfig,
    )
    from mindformers.parallel_core.training_graph.transformer import utils

    return Contender(
        utils.LayerSetting,
        {
            case: TransformerOpParallelConfig(
                swap=TransformerSwapConfig(**swap), recompute=TransformerRecomputeConfig(**recompute)
            )
            for case, (swap, recompute) in asked.items()
        },
    )


def _layers(num_layers: int) -> list[Any]:
    from mindformers.models.llama.llama_transformer import LLamaDecodeLayer

    return [
        LLamaDecodeLayer(32, index, dim=64, n_heads=4, multiple_of=16, use_flash_attention=True, fused_kernel=True)
        for index in range(num_layers)
    ]


def _training_config(num_layers: int, swap: Section, recompute: Section) -> Section:
    """What the session is shown of the training YAML."""
    return {
        "model": {
            "arch": {"type": "LlamaForCausalLM"},
            "model_config": {"type": "LlamaConfig", "num_layers": num_layers, "use_flash_attention": True},
        },
        "swap_config": swap,
        "recompute_config": recompute,
    }


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.1f} ({min(seconds) * 1e3:.1f} to {max(seconds) * 1e3:.1f})"


def _silence() -> TextIO:
    """Send what mindspore and mindformers log to nowhere; the real standard output is returned."""
    out = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return out


if __name__ == "__main__":
    main()
