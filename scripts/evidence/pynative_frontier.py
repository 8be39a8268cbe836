"""docs/evidence/pynative-plans.md, its last section: points of the frontier of PyNative YAMLs, and true runs of them.

    scripts/generations.sh --install pynative
    python scripts/evidence/pynative_frontier.py --seed S --shapes N [--table]

The frontier of each random layout is taken once. Some of its points are drawn. Each is planned for by itself, with what
the frontier says that it needs as the budget, dry-run as it was planned, and planned with ``--confirm``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from evidence_page import paragraph
from pynative_layouts import shared
from pynative_plans import AMPLE, FRONTIER, PAGE, Confirmed, Planner, entry_told, environment, fullest, write
from pynative_strategies import MODELS, shape

EACH = 2  # points of a frontier
HOW = """\
Made by `scripts/evidence/pynative_frontier.py --seed {seed} --shapes {shapes} --table` with {versions}.
Of random layouts as above `swapconf plan YAML --budget {ample} --frontier --format json` was asked once. Of the points
of each frontier {each} were drawn, and one more that swaps a single module where there is such a point. Each was
planned for with what the frontier says that it needs, to the byte, as the budget (`swapconf plan YAML --budget POINT`),
dry-run, and planned for once more with `--confirm`.

- *points*: of the frontier. *as there*: the plan for the budget is that of the point.
- *used*, *with fragments*: of the true run of the point, on the stage that holds most, B. *off*: of what was predicted.
  *At most*: how far the bound of the used peak lies above the true one.
- *rounds*: plans that `--confirm` made and dry-run until one fitted: a point has no room to spare.

| shape | points | budget, B | plan | as there | used | off | at most | with fragments | off | rounds | fits |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point(Confirmed):
    """Of a frontier of ``points``. ``is_same``: the plan for its memory is its own."""

    points: int
    is_same: bool

    def cells(self) -> str:
        cells = [self.shape, str(self.points), f"{self.budget:,}", "<br>".join(self.entries), _yes_no(self.is_same)]
        cells += [
            f"{self.used:,}",
            f"{self.off:+.4%}",
            f"{self.spare:+.1%}",
            f"{self.mapped:,}",
            f"{self.mapped_off:+.2%}",
        ]
        return f"| {' | '.join([*cells, str(self.rounds), _yes_no(self.fits)])} |"

    @property
    def moves_modules(self) -> bool:
        return any(map(_is_of_module, self.entries))


def _yes_no(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _is_of_module(entry: str) -> bool:
    return entry.startswith("swap `")


def points(python: str, variables: Mapping[str, str], folder: Path, seed: int, count: int) -> Iterator[Point]:
    for number in range(count):
        rng = Random(f"{seed}:{number}")
        layout = shared(rng, shape(rng, MODELS[number % len(MODELS)]))
        planner = Planner(python=python, variables=variables, folder=folder / str(number))
        write(layout.shape, planner.folder)
        frontier = planner.plan(AMPLE, "--frontier")[0]["frontier"]
        text = f"{layout.shape.text}<br>{layout.text.partition(',')[0]}"
        for point in _drawn(rng, frontier):
            yield _point(planner, text, len(frontier), point)


def _point(planner: Planner, shape: str, count: int, point: Mapping[str, Any]) -> Point:
    budget = int(point["needed_bytes"])
    planned, _ = planner.plan(f"{budget}B")
    rank = fullest(planned["ranks"])
    true = next(one for one in planner.dry_run(planned["yaml"]) if one["rank"] == rank["rank"])
    confirmed, refuted = planner.plan(f"{budget}B", "--confirm")
    return Point(
        shape=shape,
        points=count,
        budget=budget,
        entries=_entries(point),
        is_same=_entries(planned) == _entries(point),
        predicted=rank["used_peak_bytes"],
        at_most=rank["safe_used_peak_bytes"],
        predicted_mapped=rank["with_fragments_peak_bytes"],
        used=true["used_peak_bytes"],
        mapped=true["with_fragments_peak_bytes"],
        rounds=refuted + bool(confirmed["confirmed"]),
        fits=bool(confirmed["confirmed"]) and all(one["fits"] for one in confirmed["confirmed"]),
    )


def _drawn(rng: Random, frontier: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the points with a strategy."""
    asked = [point for point in frontier if point["entries"]]
    drawn = rng.sample(asked, min(EACH, len(asked)))
    moving = [point for point in asked if any(map(_is_of_module, _entries(point))) and point not in drawn]
    return [*drawn, *rng.sample(moving, min(1, len(moving)))]


def _entries(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(entry_told, told["entries"]))


def result(made: Sequence[Point]) -> str:
    off, mapped = [abs(point.off) for point in made], [abs(point.mapped_off) for point in made]
    moving = [point for point in made if point.moves_modules]
    same, again = sum(point.is_same for point in made), sum(point.rounds > 1 for point in made)
    above = sum(point.spare < 0 for point in made)
    return (
        f"The plan for the memory of a point is that of the point in {same} of {len(made)}; {len(moving)} of them swap "
        f"single modules. In their true runs the used peak was off by {median(off):.4%} in the median and "
        f"{max(off):.4%} at worst, above its bound in {above}, the peak with fragments by {median(mapped):.2%} and "
        f"{max(mapped):.2%}. `--confirm` ends with a plan that fits in {sum(point.fits for point in made)}, {again} of "
        f"them after another round."
    )


def section(made: Sequence[Point], seed: int, shapes: int, versions: str) -> str:
    """The page with this section anew."""
    before = PAGE.read_text(encoding="utf-8").partition(f"\n{FRONTIER}\n")[0].rstrip()
    told = HOW.format(seed=seed, shapes=shapes, versions=versions, ample=AMPLE, each=EACH)
    told += "".join(f"{one.cells()}\n" for one in made)
    return "\n".join([before, "", FRONTIER, "", *paragraph(result(made)), told])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--shapes", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="write the section of docs/evidence/pynative-plans.md")
    options = parser.parse_args()
    python, variables, versions = environment(is_parallel=True)
    made = []
    with tempfile.TemporaryDirectory(prefix="swapconf-pynative-") as folder:
        for point in points(python, variables, Path(folder), options.seed, options.shapes):
            made.append(point)
            print(point.cells(), flush=True)
    print(result(made))
    if options.table:
        PAGE.write_text(section(made, options.seed, options.shapes, versions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
