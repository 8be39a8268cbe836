#!/usr/bin/env python3
"""Dry run of many equal layers: extrapolated from few against the whole model.

    python scripts/bench/bench_fold.py [--layers 32] [--config configs/llama2_7b/example1_default_swap.yaml]

Llama2-7B shape, 8 devices, rank 0. First the whole model, then the folded run with its two sizes side by side; the
second must be within 0.5 % of the first. Needs `pip install -e '.[mindspore,dryrun]'`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from swapconf.config import overrides
from swapconf.dryrun.fold.folded import dry_run
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.rank_order import RankOrder

CONFIG = Path(__file__).parents[2] / "configs/llama2_7b/example1_default_swap.yaml"
FIELDS = ("used_peak_bytes", "with_fragments_peak_bytes", "host_bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="A.B.C=VALUE")
    options = parser.parse_args()
    changes = [f"model.model_config.num_layers={options.layers}", *options.changes]
    document = overrides.read(["--config", str(options.config)], changes)
    assert document is not None
    order = RankOrder(document=document, rank=0, children=2)
    whole, folded = dry_run(order), dry_run(replace(order, fold=True))
    print(f"{options.config.name}, {options.layers} layers; {folded.fold_note}")
    for name in FIELDS:
        true, told = getattr(whole, name), getattr(folded, name)
        print(f"{name}: whole {true:,}, folded {told:,}, off by {_percent(told, true)}")
    print(f"tensors moved: whole {_tensors(whole)}, folded {_tensors(folded)}")
    ratio = whole.seconds / folded.seconds
    print(f"seconds: whole {whole.seconds:.0f}, folded {folded.seconds:.0f}: {ratio:.1f} times faster")


def _percent(told: int, true: int) -> str:
    return f"{100 * (told - true) / true:+.3f} %" if true else "0 %"


def _tensors(report: RankReport) -> int:
    return sum(move.tensors for move in report.moved)


if __name__ == "__main__":
    main()
