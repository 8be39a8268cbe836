"""Composed traces against dry runs, on random stages: the table of docs/evidence/composed.md.

    python scripts/evidence/composed.py FOLDER [--seed 52] [--cases 60] [--list] [--only NAME] [--out PAGE]

Each case is a stage of a random layout: its role, layers, micro-batches, stages and data parallelism. ``--list`` says
which runs they take, beside two of each role with few layers; ``--only`` makes one of them, so that several can be made
at once. Without either, all runs in FOLDER are composed from each other, in every way in which that is possible; of
each composed trace and of the stage's own run `whatif` is then asked one strategy, in turns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import evidence_page
from composed_shapes import Shape, order, runs, shapes
from evidence_page import opening, paragraph, table

from swapconf.config.nodes import from_plain
from swapconf.dryrun.composing.composed import Composed, Source, composed
from swapconf.dryrun.composing.keep import keep, source
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Role
from swapconf.dryrun.fold import folded
from swapconf.dryrun.rank_order import cluster_of
from swapconf.study.study import study_for_run
from swapconf.trace import run_record
from swapconf.upstream.launch_orders import Order
from swapconf.whatif.question import Question


def make(one: Shape, folder: Path) -> None:
    """A run, into a folder that appears only when it is whole."""
    target, work = folder / one.name, folder / f".{one.name}"
    if target.exists():
        return
    shutil.rmtree(work, ignore_errors=True)
    report = folded.dry_run(order(one, work))
    if not report.outcome.good:
        raise SystemExit(f"{one.name}: {report.outcome.value}: {report.detail}")
    (inner,) = work.glob("rank_*")
    inner.rename(target)
    shutil.rmtree(work)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A dry run in a folder."""

    folder: Path
    source: Source

    @property
    def layers(self) -> int:
        return sum(row.length for row in self.source.stage.rows)

    @property
    def words(self) -> str:
        stage = self.source.stage
        cluster = cluster_of(stage.study.document)
        place = f"stage {stage.number} of {cluster.num_stages}, " if cluster.num_stages > 1 else ""
        return f"{place}{self.layers} layers, {self.source.micro_batches} micro-batches, dp{cluster.data_parallel}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """``used``, ``fragments``: differences as shares of the true figures. ``asked``: the larger one of both with a
    strategy, of what is predicted from the run itself; ``order``: whose order of launches that is."""

    target: Kept
    sources: tuple[Kept, ...]
    used: float
    fragments: float
    strategy: str
    asked: float
    order: str


def ways(target: Kept, runs: Sequence[Kept]) -> Iterator[tuple[Kept, ...]]:
    """What it could be composed from: each other run of as many layers, each two runs of one layout with fewer."""
    others = [one for one in runs if one is not target and one.source.stage.role is target.source.stage.role]
    yield from ((one,) for one in others if one.layers == target.layers)
    for one, two in permutations(others, 2):
        seats = {(item.source.stage.num_stages, item.source.micro_batches) for item in (one, two)}
        if one.layers < two.layers < target.layers and len(seats) == 1:
            yield one, two


STRATEGIES: dict[str, dict[str, Any]] = {
    "full recompute": {"recompute_config": {"recompute": True}},
    "mlp recomputed": {
        "recompute_config": {"recompute": False, "select_recompute": {".*feed_forward.*|.*mlp.*": True}}
    },
    "layers swapped": {"swap_config": {"swap": True, "layer_swap": [{"backward_prefetch": 40, "layers": True}]}},
    "attention swapped": {
        "swap_config": {"swap": True, "op_swap": [{"op_name": ".*attention", "backward_prefetch": 20, "layers": True}]}
    },
}


def rows(runs: Sequence[Kept], refused: Counter[str]) -> Iterator[Row]:
    """Of all that compose. ``refused``: counts what is not, by its reason."""
    names = cycle(STRATEGIES)
    for target in runs:
        for sources in ways(target, runs):
            try:
                made = composed(target.source.stage, [one.source for one in sources])
            except CannotCompose as reason:
                refused[str(reason)] += 1
                continue
            found, truth, strategy = made.trace, target.source.trace, next(names)
            asked, order = _asked(made, target, STRATEGIES[strategy])
            yield Row(
                target=target,
                sources=sources,
                used=found.used_peak_bytes / truth.used_peak_bytes - 1,
                fragments=found.with_fragments_peak_bytes / truth.with_fragments_peak_bytes - 1,
                strategy=strategy,
                asked=asked,
                order=order,
            )


def _asked(made: Composed, target: Kept, strategy: Mapping[str, Any]) -> tuple[float, str]:
    """See `Row`."""
    document = target.source.stage.study.document
    settings: Any = document.root.plain()
    study = study_for_run(from_plain({**settings, **strategy}, document), os.environ)
    with TemporaryDirectory() as folder:
        keep(made, Path(folder))
        one, other = (
            Question(place, study).answer()
            for place in (Path(folder) / f"rank_{target.source.stage.rank}", target.folder)
        )
    pairs = (
        (one.prediction.used_peak_bytes, other.prediction.used_peak_bytes),
        (one.placement.mapped_bytes, other.placement.mapped_bytes),
    )
    return max((mine / its - 1 for mine, its in pairs), key=abs), one.way.order.value


def case(one: Row) -> list[str]:
    last = one.sources[-1].source
    layers = " and ".join(str(item.layers) for item in one.sources)
    return [
        one.target.source.stage.role.value,
        one.target.words,
        f"{layers} layers, {last.in_flight} of {last.micro_batches} micro-batches in flight",
        str(one.target.source.in_flight),
        f"{one.used:+.4%}",
        f"{one.fragments:+.4%}",
        one.strategy,
        f"{one.asked:+.4%}",
    ]


CASE = ("role", "stage", "composed from", "in flight", "used peak", "with fragments", "strategy", "with it")
SUMMARY = (
    *("role", "composed", "used peak: median", "lowest", "highest"),
    *("with fragments: median", "lowest", "highest", "with a strategy: lowest", "highest"),
)


def summary(found: Sequence[Row]) -> Iterator[list[str]]:
    for role in (None, *Role):
        mine = [one for one in found if role in (None, one.target.source.stage.role)]
        if mine:
            cells = [role.value if role else "all", str(len(mine))]
            for figures in ([one.used for one in mine], [one.fragments for one in mine]):
                cells += [f"{statistics.median(map(abs, figures)):.4%}", f"{min(figures):+.4%}", f"{max(figures):+.4%}"]
            asked = [one.asked for one in mine]
            yield [*cells, f"{min(asked):+.4%}", f"{max(asked):+.4%}"]


def page(found: Sequence[Row], refused: Mapping[str, int], seed: int, history: Sequence[str]) -> str:
    used, fragments, asked = ([getattr(one, name) for one in found] for name in ("used", "fragments", "asked"))
    by_graph = sum(one.order == Order.MINDSPORE.value for one in found)
    result = (
        f"{len(found)} traces composed from runs of other layouts have the used peak of their own runs within "
        f"{min(used):+.4%} and {max(used):+.4%}, with fragments {min(fragments):+.4%} to {max(fragments):+.4%}. What "
        f"`whatif` predicts from them for a strategy is within {min(asked):+.4%} and {max(asked):+.4%} of what it "
        f"predicts from the runs, {by_graph} times in MindSpore's own order of launches."
    )
    comment = "Made by scripts/evidence/composed.py from traces of dry runs; edit that."
    lines = [*opening("Composed traces", result, SUMMARY, [*summary(found)], comment)]
    lines += ["## How", ""]
    lines += paragraph(
        "Tiny Qwen3 and Llama (hidden 512, sequence 1,024, vocabulary 4,096), MindSpore 2.9.0 and mindformers 1.9.0, "
        f"level 1, no swap, no recompute; random stages (seed {seed}, drawn when the code stood), and for each of "
        "them runs of its role. Each run is composed from every other run of its role, or two, that allows it."
    )
    lines += (
        [*table(("refused for", "cases"), [[words, str(count)] for words, count in refused.items()])] if refused else []
    )
    lines += ["## Cases", "", *table(CASE, [case(one) for one in found])]
    return "\n".join([*lines[:-1], *history]) + "\n"


def good_runs(folder: Path) -> list[Path]:
    records = sorted(folder.rglob(run_record.FILE))
    return [path.parent for path in records if run_record.report(path.parent).get("outcome") == "completed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=52)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, help="the page to write")
    options = parser.parse_args()
    cases, folder = shapes(options.seed, options.cases), options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.list:
        print("\n".join(one.name for one in runs(cases)))
        return
    if options.only:
        for one in runs(cases):
            if one.name == options.only:
                make(one, folder)
        return
    found, refused = [], Counter[str]()
    for row in rows([Kept(folder=place, source=source(place)) for place in good_runs(folder)], refused):
        found.append(row)
        print(" | ".join(case(row)), flush=True)
    written = page(found, refused, options.seed, evidence_page.kept(options.out) if options.out else [])
    if options.out:
        options.out.write_text(written, encoding="utf-8")
    print("\n".join(" | ".join(cells) for cells in summary(found)))


if __name__ == "__main__":
    main()
