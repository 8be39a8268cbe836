#!/usr/bin/env python3
"""Build the host runtime shim for the MindSpore of this interpreter and dry-run one layer of Llama with it.

    python scripts/shim_matrix.py            one line of JSON; exit code 0 if the dry run was clean

scripts/shim_matrix.sh runs this in one environment for each supported pair of versions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PEAK = re.compile(r"^Used peak memory usage \(without fragments\): \S+$", re.MULTILINE)
TIMEOUT_S = 600


def train_one_layer() -> None:
    """Compile and run one training step, as a worker of eight would."""
    import mindspore
    import numpy
    from mindformers.models.llama import LlamaConfig, LlamaForCausalLM
    from mindspore import nn

    # One thread, which is what few cores would get, is too few for the runtime.
    mindspore.runtime.dispatch_threads_num(5)
    mindspore.set_context(mode=mindspore.GRAPH_MODE, jit_config={"jit_level": "O0"})
    mindspore.set_device("Ascend")
    mindspore.communication.init()
    network = LlamaForCausalLM(
        LlamaConfig(
            batch_size=1,
            seq_length=256,
            hidden_size=128,
            num_layers=1,
            num_heads=4,
            vocab_size=512,
            multiple_of=16,
            compute_dtype="bfloat16",
            param_init_type="float32",
            use_flash_attention=True,
        )
    )
    network.set_train()
    step = nn.TrainOneStepCell(network, nn.AdamWeightDecay(network.trainable_params()))
    print("loss", step(mindspore.Tensor(numpy.ones((1, 257), numpy.int32))))


def dry_run() -> dict[str, Any]:
    """The facts of one dry run, as a row of the table."""
    sys.path.insert(0, str(REPOSITORY))
    from swapconf.dryrun.environment import prepare

    summary = prepare().summary()
    started = time.monotonic()
    prepared = prepare()
    cached_s = time.monotonic() - started
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        variables = {**prepared.variables, "RANK_ID": "0", "RANK_SIZE": "8"}
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--train"],
            env=variables,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
        )
    peak = PEAK.search(done.stdout)
    if done.returncode != 0 or not peak:
        print(done.stdout[-4000:], file=sys.stderr)
    runtime = summary[summary["source"]]
    return {
        **{name: summary[name] for name in ("mindspore", "mindformers", "python_version", "source")},
        "symbols": runtime.get("symbols"),
        "build_seconds": runtime.get("build_seconds"),
        "cached_seconds": round(cached_s, 2),
        "run_seconds": round(time.monotonic() - started, 1),
        "exit_code": done.returncode,
        "peak": peak[0] if peak else "",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train here and now, instead of in a prepared child")
    if parser.parse_args().train:
        train_one_layer()
        return 0
    row = dry_run()
    print(json.dumps(row))
    return 0 if row["exit_code"] == 0 and row["peak"] else 1


if __name__ == "__main__":
    sys.exit(main())
