#!/usr/bin/env python3
"""Plans for composed traces, really dry-run: the section of docs/evidence/layouts.md on them.

    python scripts/evidence/composed_plans.py [--seed 1] [--plans 20] [--effort 0.1] [--jobs 2] [--out PAGE]

Layouts of a tiny Qwen3 and Llama with two stages, whose traces are composed from runs of a layout with four stages or
other micro-batches, as `swapconf layout` composes them. Each is planned under a random budget between what it holds
with full recompute and without, and the YAML with the plan is run, one rank of each stage.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from composed_shapes import BASES, ROOT, Base
from evidence_page import paragraph, put, table
from layout_exhaustive import ANYTHING, runner, world_of

from swapconf.cli.child_options import RunOptions
from swapconf.cli.planning import run_plan
from swapconf.config import base_config, overrides
from swapconf.layout.judged import Judged
from swapconf.layout.layout import Layout, layout_of
from swapconf.plan import written as plans
from swapconf.plan.confirmed import confirm
from swapconf.plan.keys import best_of_keys
from swapconf.plan.modes import KEEP, RECOMPUTED, uniform
from swapconf.plan.planned import needed_bytes
from swapconf.study.study import Study, study_for_check
from swapconf.words.units import show_bytes

HEADING = "## Plans of composed traces"
_HEAD = ("model", "layout", "stages composed", "budget", "plan", "with fragments, true", "used peak, off by")
_LAYERS = 4


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--plans", type=int, default=20)
    options.add_argument("--effort", type=float, default=0.1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, help="the page that has the section")
    given = options.parse_args()
    rows: list[list[str]] = []
    for turn, base in enumerate(BASES):
        for row in _of_base(base, given, given.plans // len(BASES), Random(given.seed + turn)):
            rows.append(row)
            print(" | ".join(row), flush=True)
    over = sum(row[-2].endswith("over") for row in rows)
    words = (
        f"{len(rows)} plans for layouts whose stages are composed, each in a true run of all stages: {over} need more "
        f"than their budget. Seed {given.seed}, `--effort {given.effort}`, ascend_910b2; made by "
        "`scripts/evidence/composed_plans.py`."
    )
    text = "\n".join([HEADING, "", *paragraph(words), *table(_HEAD, rows)]).rstrip()
    print(text)
    if given.out:
        put(given.out, HEADING, text)


def _of_base(base: Base, given: argparse.Namespace, count: int, rng: Random) -> Iterator[list[str]]:
    study, changes = _study(base)
    own = layout_of(study)
    world = world_of(study, changes, runner(given.jobs), ANYTHING, given.effort, composes=True)
    world.run([own], truly=True)
    sizes = rng.sample(range(4, 20), count)
    wanted = [replace(own, stages=2, deal=((2, 2),), data=own.data * 2, micro_batches=size) for size in sizes[::2]]
    wanted += [replace(own, micro_batches=size) for size in sizes[1::2] if size != own.micro_batches]
    for item in world.run([wanted[0]], truly=True)[0] + world.run(wanted[1:])[0]:
        if item.composed:
            yield _planned(base, world, item.layout, item.composed, given, rng.uniform(0.2, 0.8))


def _planned(
    base: Base, world: Judged, layout: Layout, composed: int, given: argparse.Namespace, share: float
) -> list[str]:
    judge = world.judge(layout)
    low, high = (needed_bytes(judge, uniform(mode, judge.network)) for mode in (RECOMPUTED, KEEP))
    budget = int(low + (high - low) * share)
    candidate = world.candidates[layout]
    study, changes = _study(base)
    under = world_of(study, changes, runner(given.jobs), budget, given.effort, composes=True)
    under.run([layout_of(study), layout])
    best = best_of_keys(under.judge(layout), given.effort).chosen
    text = (ROOT / base.config).read_text(encoding="utf-8")
    made = under.judge(layout).written(best.plan)
    after = plans.write(text, base_config.of_text(text, str(ROOT / base.config)), made, "planned")
    options = RunOptions(
        jobs=given.jobs, dask=None, keep=None, fold=True, timeout=600.0, no_cache=False, register_path=None
    )
    without = [change for change in candidate.changes if not change.startswith(("swap_config", "recompute_config"))]
    found = confirm(under.judge(layout), best, run_plan(candidate.study, without, after, options))
    fits = all(rank.fits for rank in found)
    worst = max((rank.error for rank in found), key=abs)
    most = max(found, key=lambda rank: rank.pool_bytes - rank.most_bytes)
    words = "swap " * made.swap_on + "recompute" * bool(made.recompute.full or made.recompute.select)
    return [
        *(base.name, layout.name, f"{composed} of {layout.stages}", show_bytes(budget), words.strip() or "none"),
        f"{show_bytes(most.pool_bytes)} of {show_bytes(most.most_bytes)}" + ("" if fits else ", over"),
        f"{worst:+.4%}",
    ]


def _study(base: Base) -> tuple[Study, tuple[str, ...]]:
    settings = {f"model.model_config.{key}": value for key, value in base.model.items()}
    settings |= {
        f"model.model_config.{base.layers_key}": _LAYERS,
        "model.model_config.offset": 0,
        "parallel_config.data_parallel": 1,
        "parallel_config.model_parallel": 2,
        "parallel_config.pipeline_stage": 4,
        "parallel_config.use_seq_parallel": base.sequence_parallel,
        "parallel_config.micro_batch_num": 10,
        "runner_config.gradient_accumulation_steps": 1,
        "swap_config": {"swap": False},
        "recompute_config.recompute": False,
        "recompute_config.select_recompute": False,
    }
    if base.inputs:
        settings["parallel.dataset_strategy"] = [[1, 1]] * base.inputs
    changes = tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())
    return study_for_check(overrides.of_file(str(ROOT / base.config), changes), os.environ), changes


if __name__ == "__main__":
    main()
