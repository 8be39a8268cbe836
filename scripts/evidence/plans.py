#!/usr/bin/env python3
"""Plans held against true dry runs: random shapes of four families under several budgets, as docs/evidence/plans.md.

    python scripts/evidence/plans.py --seed 1 --keep DIR [--out docs/evidence/plans.md] [--jobs 1] [--jit-level O1]

Each shape is a config with a random model and layout of the seed (random_shapes.py); its baseline is dry-run once.
Budgets reach from 95 % of what the model needs without swap and recompute to just above the lowest plan that is found;
one is what full recompute needs.
Each plan is made and confirmed by `swapconf plan --confirm`, as a user would, which really runs every stage. What is
in DIR already is not run again. An hour or two on two cores; needs mindspore.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from agreement_cases import document, study
from evidence_page import kept, opening
from random_shapes import Shape, shape

from swapconf.plan import simple
from swapconf.words.findings import has_errors

# family -> how many stages its shapes have
SHAPES = (
    ("llama", 1),
    ("llama", 2),
    ("llama", 4),
    ("qwen3", 1),
    ("qwen3", 2),
    ("qwen3_moe", 1),
    ("qwen3_moe", 2),
    ("deepseek_v3", 1),
    ("deepseek_v3", 2),
)
SHARES = (0.95, 0.5, 0.05)  # of the way from the lowest plan (0) to what needs no plan (1); the first of that alone
FULL = "full"  # the budget that full recompute needs
HARDWARE = "ascend_910b2"
FAILED = ".failed"  # beside .json: what a plan that was not confirmed ended with
_LARGE, _SMALL = "1000GB", "1MB"


@dataclass(frozen=True, kw_only=True)
class Made:
    """``found``: as ``swapconf plan --format json`` prints it. ``at_full``: the budget is what full recompute needs."""

    name: str
    layout: str
    at_full: bool
    budget_bytes: int
    top_bytes: int
    found: dict[str, Any]

    @property
    def ranks(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """(predicted, true)."""
        yield from zip(self.found["ranks"], self.found["confirmed"], strict=True)

    @property
    def errors(self) -> list[float]:
        """Of the used peak, by rank, in percent."""
        return [100 * (mine["used_peak_bytes"] / true["used_peak_bytes"] - 1) for mine, true in self.ranks]

    @property
    def truly_needed_bytes(self) -> int:
        return max(int(true["with_fragments_peak_bytes"]) + int(mine["workspace_bytes"]) for mine, true in self.ranks)

    @property
    def change(self) -> float:
        step = self.found["step_us"]
        return 100 * (float(step["plan_slower_link"]) / float(step["none"]) - 1)

    def change_of(self, strategy: str) -> str:
        for item in self.found["simple"]:
            if item["strategy"] == strategy and item["fits"]:
                return f"{100 * (item['step_us_slower_link'] / self.found['step_us']['none'] - 1):+.2f}"
        return "-"

    @property
    def more_steps(self) -> float:
        """Steps per second, in percent more than with full recompute."""
        full = next(item["step_us_slower_link"] for item in self.found["simple"] if item["strategy"] == simple.FULL)
        return 100 * (float(full) / float(self.found["step_us"]["plan_slower_link"]) - 1)

    @property
    def best_simple(self) -> float | None:
        fitting = [item["step_us_slower_link"] for item in self.found["simple"] if item["fits"]]
        return 100 * (min(fitting) / self.found["step_us"]["none"] - 1) if fitting else None


def drawn(seed: int, family: str, stages: int, jit_level: str = "") -> Shape:
    """The first random shape of a family with so many stages that `check` has nothing against. ``jit_level``: other
    than that of the example that it is made of."""
    for attempt in range(1000):
        found = shape(Random(f"{seed}/plans/{family}/{stages}/{attempt}"), family)
        if jit_level:
            found = replace(found, settings={**found.settings, "context.jit_config.jit_level": jit_level})
        if found.num_stages != stages:
            continue
        judged = study(document(found))
        if not has_errors(judged.findings) and judged.network is not None and not judged.network.approximated:
            return found
    raise RuntimeError(f"no shape of {family} with {stages} stages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--keep", type=Path, required=True, help="folder for traces and results")
    parser.add_argument("--out", type=Path, help="the page to write")
    parser.add_argument("--jobs", type=int, default=1, help="dry runs at once")
    parser.add_argument("--only", action="append", default=[], metavar="FAMILY", help="families, instead of all")
    parser.add_argument("--jit-level", default="", metavar="O1", help="with fused kernels; DIR is of one level")
    parser.add_argument("--kept", action="store_true", help="only what is in the folder already")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    shapes = [item for item in SHAPES if not options.only or item[0] in options.only]
    made = [item for family, stages in shapes for item in _plans(options, family, stages, failed)]
    lines = _page(made, failed, options.seed, options.jit_level, kept(options.out) if options.out else ())
    page = "\n".join(lines) + "\n"
    if options.out:
        options.out.write_text(page, encoding="utf-8")
    print(page)


def _plans(options: argparse.Namespace, family: str, stages: int, failed: list[str]) -> Iterator[Made]:
    """``failed``: takes what a plan that was not confirmed ended with."""
    drawn_shape = drawn(options.seed, family, stages, options.jit_level)
    traces = place(options, family, stages)
    name = traces.name
    if options.kept and not all((options.keep / f"{name}-{kind}.json").exists() for kind in ("none", "lowest")):
        return
    top = baselines(options, drawn_shape, traces)["needed_bytes"]
    lowest = asked(options, drawn_shape, traces, _SMALL, f"{name}-lowest", "--from", str(traces))
    low = lowest["needed_bytes"]
    budgets: dict[float | str, int] = {share: int(low + (top - low) * share) for share in SHARES}
    if top * SHARES[0] > low:
        budgets[SHARES[0]] = int(top * SHARES[0])
    budgets[FULL] = next(item["needed_bytes"] for item in lowest["simple"] if item["strategy"] == simple.FULL)
    for share, budget in budgets.items():
        if options.kept and not any((options.keep / f"{name}-{share}{end}").exists() for end in (".json", FAILED)):
            continue
        try:
            found = asked(
                options, drawn_shape, traces, f"{budget}B", f"{name}-{share}", "--from", str(traces), "--confirm"
            )
        except RuntimeError as error:
            print(error, file=sys.stderr, flush=True)
            failed.append(f"{name} {share}: {str(error).strip().splitlines()[-1]}")
            continue
        print(f"{name} {share}: {found['verdict']}", file=sys.stderr, flush=True)
        if not found["confirmed"]:
            failed.append(f"{name} {share}: {found['verdict']}, after the true runs of other plans")
            continue
        yield Made(
            name=name, layout=drawn_shape.layout, at_full=share == FULL, budget_bytes=budget, top_bytes=top, found=found
        )


def place(options: argparse.Namespace, family: str, stages: int) -> Path:
    """Where the baselines of a shape are."""
    return Path(options.keep) / f"{options.seed}-{family}-pp{stages}"


def baselines(options: argparse.Namespace, drawn_shape: Shape, traces: Path) -> dict[str, Any]:
    """Leaves the traces of a shape without a strategy in a folder; what `asked` gives of a plan that needs nothing."""
    return asked(options, drawn_shape, traces, _LARGE, f"{traces.name}-none", "--keep", str(traces))


def asked(
    options: argparse.Namespace, drawn_shape: Shape, traces: Path, budget: str, name: str, *more: str
) -> dict[str, Any]:
    """What the command prints; from the folder where it was asked before."""
    kept, failed = options.keep / f"{name}.json", options.keep / f"{name}{FAILED}"
    if not kept.exists() and failed.exists():
        raise RuntimeError(failed.read_text(encoding="utf-8"))
    if not kept.exists():
        line = [sys.executable, "-m", "swapconf", "plan", str(drawn_shape.path), "--budget", budget]
        line += [
            word for key, value in drawn_shape.settings.items() for word in ("--set", f"{key}={json.dumps(value)}")
        ]
        line += ["--hardware", HARDWARE, "--jobs", str(options.jobs), "--format", "json", *more]
        done = subprocess.run(line, capture_output=True, text=True, env=os.environ)
        if not done.stdout:
            failed.write_text(done.stderr[-2000:], encoding="utf-8")
            raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
        kept.write_text(done.stdout, encoding="utf-8")
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def _at_full(made: list[Made]) -> Iterator[tuple[str, str]]:
    found = {item.name: item.more_steps for item in made if item.at_full}
    split = [found[item.name] for item in made if item.at_full and "mp1" not in item.layout.split()]
    if found:
        yield (
            f"at the memory of full recompute, {len(found)} models",
            f"{median(found.values()):+.1f} % steps per second in the median",
        )
    if split:
        yield f"the same with tensor parallelism, {len(split)} models", f"at least {min(split):+.1f} %"


def _page(
    made: list[Made], failed: list[str], seed: int, jit_level: str, kept_lines: Iterable[str] = ()
) -> Iterator[str]:
    errors = [abs(error) for item in made for error in item.errors]
    over = [item for item in made if item.truly_needed_bytes > item.budget_bytes]
    slower = [item for item in made if item.best_simple is not None and item.change > item.best_simple + 0.1]
    level = f" --jit-level {jit_level}" * bool(jit_level)
    yield from opening(
        "Plans with fused kernels against true dry runs" if jit_level else "Plans against true dry runs",
        f"{len(over)} of {len(made)} plans for random models need more in the true run than their budget, and the used "
        f"peak is off by {median(errors):.3f} % in the median and {max(errors):.2f} % at worst. {len(slower)} of them "
        "are slower than the best of six simple strategies that fits, by more than 0.1 points.",
        ("what", "result"),
        [
            ("over the budget in the true run", f"{len(over)} of {len(made)} plans, {len(errors)} ranks"),
            ("used peak, predicted against true", f"median {median(errors):.3f} %, worst {max(errors):.2f} %"),
            ("slower than the best simple strategy that fits, by more than 0.1 points", f"{len(slower)}"),
            *_at_full(made),
            ("not confirmed", "; ".join(failed) or "0"),
        ],
    )
    yield from (
        f"`python scripts/evidence/plans.py --seed {seed}{level} --keep DIR` (MindSpore 2.9.0, mindformers 1.9.0):",
        "random models and layouts, planned and confirmed by `swapconf plan --confirm`. Peaks are dry runs, level 1;",
        f"times are estimated on {HARDWARE}, with a host link 30 % slower. Budgets count the workspace of one kernel,",
        "estimated. *Change* is that of the step against no swap and no recompute; *simple*: of the best of six simple",
        "strategies that fits. A plan that needs more in the true run than its budget is made again with what was",
        "missing left free, as the command does it; this is the last one.",
        "",
        "## Every plan",
        "",
        "| shape | budget, of none | verdict | entries | needs, of budget | used peak off, worst rank | change "
        "| simple | full |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    )
    for item in made:
        worst = max(item.errors, key=abs, default=0.0)
        simple = "-" if item.best_simple is None else f"{item.best_simple:+.2f} %"
        yield (
            f"| {item.name.partition('-')[2]}, {item.layout} | {item.budget_bytes / item.top_bytes:.1%} "
            f"| {item.found['verdict']} | {len(item.found['entries'])} "
            f"| {item.truly_needed_bytes / item.budget_bytes:.1%} | {worst:+.3f} % | {item.change:+.2f} % "
            f"| {simple} | {item.change_of('full recompute')} |"
        )
    yield from kept_lines


if __name__ == "__main__":
    main()
