"""Composed traces against dry runs, on random stages: the table of docs/evidence/composed.md.

    python scripts/evidence/composed.py FOLDER [--seed 52] [--cases 60] [--published] [--list]
        [--only NAME] [--out PAGE]

Each case is a stage of a random layout: its role, layers, micro-batches, stages and data parallelism. ``--list`` says
which runs they take, beside two of each role with few layers; ``--only`` makes one of them, so that several can be made
at once. Without either, all runs in FOLDER are composed from each other, in every way in which that is possible; of
every ``--ask``-th composed trace and of the stage's own run `whatif` is then asked one strategy, in turns. What is
compared stays in FOLDER, so that a second start goes on. ``--published``: of models of published shapes,
which have a page of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import cycle, permutations
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import evidence_page
from composed_shapes import BASES, PUBLISHED, Shape, order, runs, shapes
from evidence_page import opening, paragraph, table

from swapconf.config.nodes import from_plain
from swapconf.dryrun.composing.composed import Composed, Source, composed
from swapconf.dryrun.composing.keep import keep, offers, source
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Role, Stage
from swapconf.dryrun.fold import folded
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
    stage: Stage
    micro_batches: int

    @property
    def base(self) -> str:
        """What it is a run of, with which its name begins."""
        return self.folder.name.partition(".")[0]

    @property
    def layers(self) -> int:
        return sum(self.stage.lengths)

    @property
    def in_flight(self) -> int:
        return self.stage.in_flight(self.micro_batches)

    @property
    def words(self) -> str:
        cluster = self.stage.cluster
        place = f"stage {self.stage.number} of {cluster.num_stages}, " if cluster.num_stages > 1 else ""
        return f"{place}{self.layers} layers, {self.micro_batches} micro-batches, dp{cluster.data_parallel}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison. ``refused``: why nothing was composed. ``used``, ``fragments``: differences as shares of the true
    figures. ``asked``: the larger one of both with ``strategy``, of what is predicted from the run itself; ``order``:
    whose order of launches that is; "" where none was asked."""

    role: str
    target: str
    sources: str
    in_flight: int
    refused: str = ""
    used: float = 0.0
    fragments: float = 0.0
    strategy: str = ""
    asked: float = 0.0
    order: str = ""


def ways(target: Kept, runs: Sequence[Kept]) -> Iterator[tuple[Kept, ...]]:
    """What it could be composed from: each other run of as many layers, each two runs of one layout with fewer."""
    others = [
        one for one in runs if one is not target and one.base == target.base and one.stage.role is target.stage.role
    ]
    yield from ((one,) for one in others if one.layers == target.layers)
    for one, two in permutations(others, 2):
        seats = {(item.stage.num_stages, item.micro_batches) for item in (one, two)}
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


@lru_cache(maxsize=6)
def _read(folder: Path) -> Source:
    return source(folder)


def rows(runs: Sequence[Kept], known: Path, every: int) -> Iterator[Row]:
    """Of each way. ``known``: a file with a line for each that was compared before. ``every``: which ones are asked a
    strategy."""
    before = dict(map(json.loads, known.read_text(encoding="utf-8").splitlines())) if known.exists() else {}
    strategies = cycle(STRATEGIES)
    for number, (target, sources) in enumerate((one, way) for one in runs for way in ways(one, runs)):
        key = " from ".join(one.folder.name for one in (target, *sources))
        strategy = next(strategies) if number % every == 0 else ""
        if key not in before:
            before[key] = asdict(_row(target, sources, strategy))
            with known.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, before[key]]) + "\n")
        yield Row(**before[key])


def _row(target: Kept, sources: Sequence[Kept], strategy: str) -> Row:
    layers = " and ".join(str(item.layers) for item in sources)
    last = sources[-1]
    row = Row(
        role=target.stage.role.value,
        target=target.words,
        sources=f"{layers} layers, {last.in_flight} of {last.micro_batches} micro-batches in flight",
        in_flight=target.in_flight,
    )
    try:
        made = composed(target.stage, [_read(one.folder) for one in sources])
    except CannotCompose as reason:
        return replace(row, refused=str(reason))
    found, truth = made.trace, _read(target.folder).trace
    asked, order = _asked(made, target, STRATEGIES[strategy]) if strategy else (0.0, "")
    return replace(
        row,
        used=found.used_peak_bytes / truth.used_peak_bytes - 1,
        fragments=found.with_fragments_peak_bytes / truth.with_fragments_peak_bytes - 1,
        strategy=strategy,
        asked=asked,
        order=order,
    )


def _asked(made: Composed, target: Kept, strategy: Mapping[str, Any]) -> tuple[float, str]:
    """See `Row`."""
    document = target.stage.study.document
    settings: Any = document.root.plain()
    study = study_for_run(from_plain({**settings, **strategy}, document), os.environ)
    with TemporaryDirectory() as folder:
        keep(made, Path(folder))
        places = Path(folder) / f"rank_{target.stage.rank}", target.folder
        one, other = (Question(place, study).answer() for place in places)
    pairs = (
        (one.prediction.used_peak_bytes, other.prediction.used_peak_bytes),
        (one.placement.mapped_bytes, other.placement.mapped_bytes),
    )
    return max((mine / its - 1 for mine, its in pairs), key=abs), one.way.order.value


def case(one: Row) -> list[str]:
    figures = f"{one.used:+.4%}", f"{one.fragments:+.4%}"
    asked = (one.strategy, f"{one.asked:+.4%}") if one.strategy else ("", "")
    return [one.role, one.target, one.sources, str(one.in_flight), *figures, *asked]


CASE = ("role", "stage", "composed from", "in flight", "used peak", "with fragments", "strategy", "with it")
SUMMARY = (
    *("role", "composed", "used peak: median", "lowest", "highest"),
    *("with fragments: median", "lowest", "highest", "with a strategy: lowest", "highest"),
)


def summary(found: Sequence[Row]) -> Iterator[list[str]]:
    for role in (None, *Role):
        mine = [one for one in found if role is None or one.role == role.value]
        if mine:
            cells = [role.value if role else "all", str(len(mine))]
            for figures in ([one.used for one in mine], [one.fragments for one in mine]):
                cells += [f"{statistics.median(map(abs, figures)):.4%}", f"{min(figures):+.4%}", f"{max(figures):+.4%}"]
            asked = [one.asked for one in mine if one.strategy]
            yield [*cells, *((f"{min(asked):+.4%}", f"{max(asked):+.4%}") if asked else ("", ""))]


def _grouped(refused: Mapping[str, int]) -> Counter[str]:
    """Without which launch or node it was."""
    found = Counter[str]()
    for words, count in refused.items():
        found[re.sub(r" \(launch [\d,]+\)|(?<= )[\w-]+-op\d+ ", "", words)] += count
    return found


_TINY = (
    "Tiny Qwen3 and Llama (hidden 512, sequence 1,024, vocabulary 4,096) and DeepSeek-V3 (hidden 128; with optimizer "
    "and learning rate as in its published 671B)"
)
_PUBLISHED = "Stages of a few layers of the shapes of Qwen3-32B 4k and Llama-3.1-8B 8k as mindformers publishes them"


def page(all_: Sequence[Row], seed: int, *, published: bool, history: Sequence[str]) -> str:
    found, refused = [one for one in all_ if not one.refused], Counter(one.refused for one in all_ if one.refused)
    used, fragments = ([getattr(one, name) for one in found] for name in ("used", "fragments"))
    asked = [one.asked for one in found if one.strategy] or [nan]
    by_graph = sum(one.order == Order.MINDSPORE.value for one in found)
    result = (
        f"{len(found)} traces composed from runs of other layouts have the used peak of their own runs within "
        f"{min(used):+.4%} and {max(used):+.4%}, with fragments {min(fragments):+.4%} to {max(fragments):+.4%}. What "
        f"`whatif` predicts for a strategy from {len(asked)} of them is within {min(asked):+.4%} and {max(asked):+.4%} "
        f"of what it predicts from the runs, {by_graph} times in MindSpore's own order of launches."
    )
    comment = "Made by scripts/evidence/composed.py from traces of dry runs; edit that."
    title, models = ("Composed traces of published shapes", _PUBLISHED) if published else ("Composed traces", _TINY)
    lines = [*opening(title, result, SUMMARY, [*summary(found)], comment)]
    lines += ["## How", ""]
    lines += paragraph(
        f"{models}, MindSpore 2.9.0 and mindformers 1.9.0, level 1, no swap, no recompute; random stages (seed "
        f"{seed}), and for them runs of their roles with 10 micro-batches. Each run is composed from every other run "
        "of its role, or two, that allows it."
    )
    lines += (
        [*table(("not composed, as", "pairs"), [[words, str(count)] for words, count in _grouped(refused).items()])]
        if refused
        else []
    )
    lines += ["## Cases", "", *table(CASE, [case(one) for one in found])]
    return "\n".join([*lines[:-1], *history]) + "\n"


def good_runs(folder: Path) -> list[Kept]:
    found = []
    for place in sorted(path.parent for path in folder.glob(f"*/{run_record.FILE}")):
        if run_record.report(place).get("outcome") == "completed":
            (one, *_) = offers(place)
            found.append(Kept(folder=place, stage=one.stage, micro_batches=one.micro_batches))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=52)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--ask", type=int, default=1, metavar="N", help="ask a strategy of every N-th")
    parser.add_argument("--out", type=Path, help="the page to write")
    options = parser.parse_args()
    cases = shapes(options.seed, options.cases, PUBLISHED if options.published else BASES)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.list:
        print("\n".join(one.name for one in runs(cases)))
        return
    if options.only:
        for one in runs(cases):
            if one.name == options.only:
                make(one, folder)
        return
    found = []
    for row in rows(good_runs(folder), folder / "compared.jsonl", options.ask):
        found.append(row)
        print(row.refused or " | ".join(case(row)), flush=True)
    history = evidence_page.kept(options.out) if options.out else []
    written = page(found, options.seed, published=options.published, history=history)
    if options.out:
        options.out.write_text(written, encoding="utf-8")
    print("\n".join(" | ".join(cells) for cells in summary([one for one in found if not one.refused])))


if __name__ == "__main__":
    main()
