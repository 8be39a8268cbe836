"""docs/evidence/pynative-plans.md: plans of PyNative YAMLs on eight ranks that share parameters, and true runs of them.

    scripts/generations.sh --install pynative
    python scripts/evidence/pynative_plans.py --seed S --shapes N [--parallel] [--table]

Each shape is planned for several budgets with ``swapconf plan --confirm``, which makes the run without swap and
recompute, plans, dry-runs the planned YAML, and plans again where that needs more than the budget.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import yaml
from evidence_page import kept, opening
from pynative_layouts import shared
from pynative_runs import ROOT, TIMEOUT_SECONDS
from pynative_strategies import MODELS, Shape, shape

PAGE = ROOT / "docs/evidence/pynative-plans.md"
RANKS = 8
EACH = 4  # budgets of a shape
EACH_SHARED = 1  # of a layout
HARDWARE = "ascend_910b2"
AMPLE = "1000GB"
SAME = 0.001  # of a step: a plan of fewer entries may be as much slower, and is less
YAML, PLANNED = "train.yaml", "planned.yaml"
AGAIN = "planning again"  # on stderr, once for each plan that its true run refuted

HOW = """\
Made by `scripts/evidence/pynative_plans.py --seed {seed} --shapes {shapes} --table` with {versions};
hyper_parallel is swapconf's stand-in. Random Qwen3 and DeepSeek-V3, each on one of {ranks} ranks that share its
parameters (FSDP), planned for {each} random budgets between what full recompute and what nothing of it needs:
`swapconf plan YAML --budget BUDGET --hardware {hardware} --confirm`. That makes the run without swap and recompute,
plans, writes, dry-runs the planned YAML, and plans again where that run needs more than the budget. A budget holds
MindSpore's pool with its fragments; the workspace of operators is not known in PyNative mode.

- *step*: against that of the best simple strategy that fits, by the same times (-100% where none does).
- *used*: the used peak of the true run, B. *off*: of the predicted one. *at most*: how far its bound lies above the
  true peak.
- *with fragments*: of the true run, B. *off*: of the predicted one.
- *rounds*: plans that were made and dry-run until one fitted.

In all of these runs each operator ends before Python goes on (`dryrun --launch-blocking`), which is what the fullest
card may hold; without, threads race, as on cards, and two runs of one YAML differ.

## Every plan

| shape | budget, B | plan | step | used | off | at most | with fragments | off | rounds | fits |
|---|---|---|---|---|---|---|---|---|---|---|
"""
PARALLEL = "## Parallel layouts"
FRONTIER = "## Points of the frontier"  # of pynative_frontier.py
PARALLEL_HOW = """\
Made by `scripts/evidence/pynative_plans.py --seed {seed} --shapes {shapes} --parallel --table` with {versions},
in the same way: random layouts of tensor, sequence, context and expert parallelism, pipelines and shards, with 1 to 4
micro-batches, each planned for one random budget. In a pipeline the budget holds on each stage, a plan is confirmed by
a run of each, and the figures are those of the stage that holds most. *Step*: against that of the best simple strategy
that fits, by the same times.

| shape | budget, B | plan | step | used | off | at most | with fragments | off | rounds | fits |
|---|---|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmed:
    """A plan under a budget and its true run. Bytes, of the stage that holds most; ``at_most``: of the used peak; 0
    where nothing was run because nothing fits. ``rounds``, ``fits``: of the confirmed plan."""

    shape: str
    budget: int
    entries: tuple[str, ...]
    predicted: int
    at_most: int
    predicted_mapped: int
    used: int
    mapped: int
    rounds: int
    fits: bool

    @property
    def off(self) -> float:
        return self.predicted / self.used - 1

    @property
    def spare(self) -> float:
        return self.at_most / self.used - 1

    @property
    def mapped_off(self) -> float:
        return self.predicted_mapped / self.mapped - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Row(Confirmed):
    """``slower``: how much longer a step is than with the best simple strategy that fits, by the same times; below
    zero: shorter."""

    slower: float

    def cells(self) -> str:
        plan = "<br>".join(self.entries) or "nothing"
        cells = [self.shape, f"{self.budget:,}", plan, f"{self.slower:+.2%}"]
        if self.used:
            cells += [f"{self.used:,}", f"{self.off:+.4%}", f"{self.spare:+.1%}", f"{self.mapped:,}"]
            cells += [f"{self.mapped_off:+.2%}", str(self.rounds), "yes" if self.fits else "no"]
        else:
            cells += ["-"] * 5 + [str(self.rounds), "no plan"]
        return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planner:
    """``python``: an interpreter of the environment. ``folder``: of the YAML, and of its run without swap and
    recompute."""

    python: str
    variables: Mapping[str, str]
    folder: Path

    def plan(self, budget: str, *more: str) -> tuple[dict[str, Any], int]:
        """What is told as JSON, and how often a true run refuted a plan. Raises RuntimeError where it does not end."""
        words = ("--budget", budget, "--hardware", HARDWARE, "--keep", str(self.folder), *more)
        found, stderr = self._run("plan", YAML, *words)
        return dict(found), stderr.count(AGAIN)

    def dry_run(self, text: str) -> list[dict[str, Any]]:
        """Of a YAML with this text, a rank of each stage. Raises RuntimeError where it does not end."""
        (self.folder / PLANNED).write_text(text, encoding="utf-8")
        return list(self._run("dryrun", PLANNED, "--ranks", "stages", "--launch-blocking")[0])

    def _run(self, command: str, file: str, *words: str) -> tuple[Any, str]:
        """(what is told as JSON, the standard error)."""
        done = subprocess.run(
            [self.python, "-m", "swapconf", command, str(self.folder / file), *words, "--format", "json"],
            env=dict(self.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if not done.stdout:
            raise RuntimeError(f"{self.folder}, {command} {' '.join(words)}:\n{done.stderr}")
        return json.loads(done.stdout), done.stderr


def on_shards(made: Shape) -> Shape:
    """On so many ranks, with as many micro-batches as it has."""
    batch = int(str(made.settings["training.global_batch_size"])) * RANKS
    shards = {"parallelism.data_parallel_shard": RANKS, "training.global_batch_size": batch}
    return replace(made, settings={**made.settings, **shards})


def write(made: Shape, folder: Path) -> None:
    """The YAML of a shape."""
    values = yaml.safe_load((ROOT / f"configs/pynative/{made.model}.yaml").read_text(encoding="utf-8"))
    for path, value in made.settings.items():
        *sections, key = path.split(".")
        section = values
        for name in sections:
            section = section[name]
        section[key] = value
    folder.mkdir()
    (folder / YAML).write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def rows(
    python: str, variables: Mapping[str, str], folder: Path, seed: int, count: int, *, is_parallel: bool
) -> Iterator[Row]:
    for number in range(count):
        rng = Random(f"{seed}:{number}")
        drawn = shape(rng, MODELS[number % len(MODELS)])
        layout = shared(rng, drawn) if is_parallel else None
        made = on_shards(drawn) if layout is None else layout.shape
        text = made.text if layout is None else f"{made.text}<br>{layout.text.partition(',')[0]}"
        planner = Planner(python=python, variables=variables, folder=folder / str(number))
        write(made, planner.folder)
        most, least = _range(planner)
        for _ in range(EACH_SHARED if is_parallel else EACH):
            yield _row(planner, text, least + int((most - least) * rng.random()))


def _range(planner: Planner) -> tuple[int, int]:
    """With fragments, what the run without swap and recompute needs, and what it needs with full recompute."""
    plain = fullest(planner.plan(AMPLE)[0]["ranks"])
    lowest, _ = planner.plan("1MB")
    return int(plain["with_fragments_peak_bytes"]), int(lowest["needed_bytes"])


def fullest(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a rank of each stage."""
    return max(ranks, key=lambda rank: int(rank["with_fragments_peak_bytes"]))


def _row(planner: Planner, text: str, budget: int) -> Row:
    found, refuted = planner.plan(f"{budget}B", "--confirm")
    rank = fullest(found["ranks"])
    nothing = {"rank": rank["rank"], "used_peak_bytes": 0, "with_fragments_peak_bytes": 0, "fits": False}
    runs = found["confirmed"] or [nothing]
    true = next(one for one in runs if one["rank"] == rank["rank"])
    return Row(
        shape=text,
        budget=budget,
        entries=tuple(map(entry_told, found["entries"])),
        predicted=rank["used_peak_bytes"],
        at_most=rank["safe_used_peak_bytes"],
        predicted_mapped=rank["with_fragments_peak_bytes"],
        used=true["used_peak_bytes"],
        mapped=true["with_fragments_peak_bytes"],
        rounds=refuted + bool(found["confirmed"]),
        fits=all(one["fits"] for one in runs),
        slower=_slower(found),
    )


def _slower(found: Mapping[str, Any]) -> float:
    simple = [one["step_us_slower_link"] for one in found["simple"] if one["fits"]]
    return float(found["step_us"]["plan_slower_link"] / min(simple) - 1) if simple else -1.0


def entry_told(entry: Mapping[str, Any]) -> str:
    layers = ", ".join(map(str, entry["layers"]))
    what = f"`{entry['operator']}`" if entry["operator"] else "whole layers"
    return f"{entry['kind']} {what} in {layers}"


def result(made: Sequence[Row]) -> str:
    run = [row for row in made if row.used]
    used = [abs(row.off) for row in run]
    slower = sum(row.slower > SAME for row in run)
    return (
        f"{sum(row.fits for row in run)} of {len(made)} plans are confirmed by a true dry run, "
        f"{sum(row.rounds > 1 for row in run)} of them after another round. The used peak was off by "
        f"{median(used):.4%} in the median and {max(used):.4%} at worst. "
        f"{slower} of them are slower than the best simple strategy that fits by more than {SAME:.1%}."
    )


def summary(made: Sequence[Row]) -> list[tuple[str, str]]:
    run = [row for row in made if row.used]
    mapped = [abs(row.mapped_off) for row in run]
    return [
        ("shapes, budgets of each", f"{len({row.shape for row in made})}, {EACH}"),
        ("plans that nothing fits", f"{len(made) - len(run)} of {len(made)}"),
        ("used peak above its bound", f"{sum(row.spare < 0 for row in run)} of {len(run)}"),
        ("peak with fragments", f"off by {median(mapped):.2%} in the median, {max(mapped):.2%} at worst"),
    ]


def environment(*, is_parallel: bool) -> tuple[str, dict[str, str], str]:
    """The interpreter of the environment, its variables, and the versions in words."""
    sys.path.append(str(ROOT / "scripts"))
    import generations

    pair = generations.NATIVE_PAIRS[is_parallel]
    place = generations.Place(pair, generations.kept_in())
    generations.make(place)
    variables = {**place.variables(), "PYTHONPATH": str(ROOT), "SWAPCONF_LANG": "en"}
    return place.python, variables, f"mindformers {pair.mindformers} and MindSpore {pair.mindspore}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--shapes", type=int, default=4)
    parser.add_argument("--table", action="store_true", help="write docs/evidence/pynative-plans.md")
    parser.add_argument("--parallel", action="store_true", help="layouts of several ranks, with mindformers 2.1.0")
    options = parser.parse_args()
    python, variables, versions = environment(is_parallel=options.parallel)
    made = []
    with tempfile.TemporaryDirectory(prefix="swapconf-pynative-") as folder:
        drawn = rows(python, variables, Path(folder), options.seed, options.shapes, is_parallel=options.parallel)
        for row in drawn:
            made.append(row)
            print(row.cells(), flush=True)
    print(result(made))
    if options.table:
        section = parallel if options.parallel else page
        PAGE.write_text(section(made, options.seed, options.shapes, versions), encoding="utf-8")
    return 0


def page(made: Sequence[Row], seed: int, shapes: int, versions: str) -> str:
    """With the section of parallel layouts as it is."""
    head = HOW.format(seed=seed, shapes=shapes, versions=versions, ranks=RANKS, each=EACH, hardware=HARDWARE)
    told = opening("Plans of PyNative trainings against true dry runs", result(made), ("what", "result"), summary(made))
    return "\n".join([*told, head + "".join(f"{row.cells()}\n" for row in made), *kept(PAGE, PARALLEL)]).rstrip() + "\n"


def parallel(made: Sequence[Row], seed: int, shapes: int, versions: str) -> str:
    """The page with this section anew."""
    before = PAGE.read_text(encoding="utf-8").partition(f"\n{PARALLEL}\n")[0].rstrip()
    told = PARALLEL_HOW.format(seed=seed, shapes=shapes, versions=versions)
    told += "".join(f"{row.cells()}\n" for row in made)
    return "\n".join([before, "", PARALLEL, "", result(made), "", told.rstrip(), *kept(PAGE, FRONTIER)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
