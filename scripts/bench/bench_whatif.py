#!/usr/bin/env python3
"""A what-if against the dry run it replaces: whole-layer swap of a 32-layer Llama2-7B, predicted and really dry-run.

    python scripts/bench/bench_whatif.py [--layers 32] [--repeats 20] [--keep DIR]

First the baseline without swap and the run with it are dry-run (minutes; with --keep, what is in DIR is not run again),
then the baseline is read once and asked. Needs `pip install -e '.[mindspore,dryrun]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from swapconf.config import overrides
from swapconf.config.nodes import Document
from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.rank_order import RankOrder
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from swapconf.whatif.question import Question

CONFIG = Path(__file__).parents[2] / "configs/llama2_7b/example2_layer_swap.yaml"
SWAP = 'swap_config.layer_swap=[{"backward_prefetch": 20, "layers": true}]'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        layers = f"model.model_config.num_layers={options.layers}"
        swapped = _document(layers, SWAP)
        _dry_run(_document(layers, "swap_config.swap=False"), folder / "none")
        report = _dry_run(swapped, folder / "swap")
        versions = Versions.in_use()
        study = study_document(swapped, versions, os.environ)
        start = time.perf_counter()
        question = Question(folder / "none/rank_0", study)
        loading = time.perf_counter() - start
        seconds = []
        for _ in range(options.repeats):
            start = time.perf_counter()
            prediction = question.predict(study.config)
            seconds.append(time.perf_counter() - start)
    median, true = statistics.median(seconds), report["used_peak_bytes"]
    print(f"{options.layers} layers, {len(prediction.device):,} blocks; reading and preparing once: {loading:.1f} s")
    print(
        f"one what-if: median {1000 * median:.1f} ms, from {1000 * min(seconds):.1f} to {1000 * max(seconds):.1f} ms "
        f"(target 50 ms); the dry run: {report['seconds']:.0f} s: {report['seconds'] / median:,.0f} times slower"
    )
    print(
        f"used peak: predicted {prediction.used_peak_bytes:,}, dry run {true:,}: "
        f"{100 * (prediction.used_peak_bytes - true) / true:+.3f} %"
    )


def _document(*changes: str) -> Document:
    found = overrides.read(["--config", str(CONFIG)], changes)
    assert found is not None
    return found


def _dry_run(document: Document, keep: Path) -> dict[str, Any]:
    path = keep / "rank_0/run.json"
    if not path.exists():
        dry_run(RankOrder(document=document, rank=0, keep=keep))
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["report"]
    return report


if __name__ == "__main__":
    main()
