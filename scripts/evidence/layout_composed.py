#!/usr/bin/env python3
"""The search of `swapconf layout` with composed traces against the same with all stages run.

    python scripts/evidence/layout_composed.py [--cards 8] [--effort 0.1] [--jobs 2] [--without NAME ...] [--write]

Every layout of a small Qwen3 with a large vocabulary is really dry-run, one rank of each stage; then its stages are
composed as the search would, and both searches are asked. The runs stay in the cache, so that a second start goes on.
--without leaves layouts out, by their name. --write puts the section into docs/evidence/layouts.md.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from cases import ROOT
from evidence_page import paragraph, put, table
from layout_exhaustive import ANYTHING, BESIDE, CARD, PAGE, runner, world_of

from swapconf.config import overrides
from swapconf.layout.found import Found
from swapconf.layout.judged import Judged
from swapconf.layout.layout import Layout, layout_of
from swapconf.layout.legal import layouts, wishes
from swapconf.layout.search import Limit, Search
from swapconf.plan.modes import KEEP, RECOMPUTED, uniform
from swapconf.plan.planned import needed_bytes
from swapconf.study.study import study_for_check
from swapconf.timing import hardware
from swapconf.words.units import show_bytes

CONFIG = str(ROOT / "configs/small/qwen3_default_swap.yaml")
MODEL = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 151936,
    "seq_length": 256,
    "max_position_embeddings": 256,
    "num_hidden_layers": 8,
}
LAYOUT = {
    "parallel_config.data_parallel": 2,
    "parallel_config.model_parallel": 1,
    "parallel_config.pipeline_stage": 4,
    "parallel_config.micro_batch_num": 4,
    "runner_config.gradient_accumulation_steps": 1,
    "parallel.dataset_strategy": [[2, 1]] * 4,
}
FIXED = ("batch_size", "use_seq_parallel", "enable_parallel_optimizer", "model_parallel")
_STAGES = ("layout", "stages composed", "used peak of a stage", "with fragments", "step without a strategy")
_SEARCHES = (
    "budget",
    "ranks run: all / composed",
    "best: all / composed",
    "step: all / composed",
    "order of the planned",
)


def changes() -> tuple[str, ...]:
    settings = {**{f"model.model_config.{key}": value for key, value in MODEL.items()}, **LAYOUT}
    return tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layout, composed and run. ``used``, ``fragments``: by composed stage, how far off; ``step``: the same."""

    layout: Layout
    composed: int
    used: tuple[float, ...]
    fragments: tuple[float, ...]
    step: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cards", type=int, default=8)
    options.add_argument("--effort", type=float, default=0.1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--without", action="append", default=[], metavar="NAME")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    study = study_for_check(overrides.of_file(CONFIG, changes()), os.environ)
    own = layout_of(study)
    found = [one for one in layouts(own, given.cards, wishes(FIXED, [])) if one.name not in given.without]

    def world(budget: int, *, composes: bool) -> Judged:
        return world_of(study, changes(), runner(given.jobs), budget, given.effort, composes=composes)

    rows = list(compared(world(ANYTHING, composes=False), world(ANYTHING, composes=True), own, found))
    budgets = list(_budgets(world(ANYTHING, composes=False), own))
    searches = [
        _search(budget, [world(budget, composes=one) for one in (False, True)], own, found) for budget in budgets
    ]
    text = "\n".join(lines(rows, searches))
    print(text)
    if given.write:
        put(PAGE, BESIDE, text)


def compared(run: Judged, made: Judged, own: Layout, found: Sequence[Layout]) -> Iterator[Row]:
    truth = {item.layout: item for item in run.run(found)[0]}
    made.run([own], truly=True)
    tried = {item.layout: item for item in made.run([one for one in found if one != own and one in truth])[0]}
    for layout, item in tried.items():
        true, judge, keep = run.judge(layout), made.judge(layout), uniform(KEEP, made.judge(layout).network)
        stages = [number for number, words in enumerate(made.origins(layout)) if words]
        yield Row(
            layout=layout,
            composed=item.composed,
            used=tuple(judge.used_bytes(keep)[at] / true.used_bytes(keep)[at] - 1 for at in stages),
            fragments=tuple(judge.pool_bytes(keep)[at] / true.pool_bytes(keep)[at] - 1 for at in stages),
            step=item.floor_us / truth[layout].floor_us - 1,
        )


def _budgets(world: Judged, own: Layout) -> Iterator[int]:
    """One that the YAML's own layout fits in only with a strategy, and one that is roomy."""
    world.run([own], truly=True)
    judge = world.judge(own)
    low, high = (needed_bytes(judge, uniform(mode, judge.network)) for mode in (RECOMPUTED, KEEP))
    yield (low + high) // 2
    yield 2 * high


def _search(budget: int, worlds: Sequence[Judged], own: Layout, found: Sequence[Layout]) -> tuple[int, list[Found]]:
    answers = []
    for world in worlds:
        refused = world.checked(found)
        limit = Limit(usable_bytes=budget, hardware=hardware.load(CARD), runs=200)
        trainable = [one for one in found if one in world.candidates]
        answers.append(Search(world=world, layouts=trainable, own=own, limit=limit, refused=refused).run())
    return budget, answers


def lines(rows: Sequence[Row], searches: Sequence[tuple[int, Sequence[Found]]]) -> Iterator[str]:
    used = [one for row in rows for one in row.used]
    same = sum(_order(both[0]) == _order(both[1]) for _, both in searches)
    best = sum(both[0].finals[0].layout == both[1].finals[0].layout for _, both in searches)
    yield BESIDE
    yield ""
    yield from paragraph(
        f"The same search with composed traces finds the same layout under {best} of {len(searches)} budgets, and puts "
        f"those that fit into the same order under {same}. Of {len(used)} stages that were composed the used peak is "
        f"{min(used):+.4%} to {max(used):+.4%} off that of their own runs."
    )
    yield from table(_SEARCHES, [_told(budget, both) for budget, both in searches])
    yield from table(_STAGES, [_of_layout(row) for row in rows])
    yield from paragraph(
        "Qwen3 of 8 layers (hidden 256, sequence 256, vocabulary 151,936), 8 sequences a step on 8 cards, "
        "MindSpore 2.9.0 and mindformers 1.9.0, ascend_910b2; micro-batches of one sequence, without sequence "
        "parallelism and parallel optimizer. *All*: every stage was run (`--no-compose`). Of the best three all stages "
        "were run in both searches. Made by `scripts/evidence/layout_composed.py`."
    )


def _order(found: Found) -> list[str]:
    return [item.layout.name for item in found.finals if isfinite(item.cost_us)]


def _told(budget: int, both: Sequence[Found]) -> list[str]:
    run, made = both
    bests = [found.finals[0] for found in both]
    return [
        show_bytes(budget),
        f"{run.ran} / {made.ran}",
        " / ".join(best.layout.name for best in bests),
        " / ".join(f"{best.cost_us / 1000:.3f} ms" if isfinite(best.cost_us) else "does not fit" for best in bests),
        "the same" if _order(run) == _order(made) else f"{', '.join(_order(run))} / {', '.join(_order(made))}",
    ]


def _of_layout(row: Row) -> list[str]:
    def between(values: Sequence[float]) -> str:
        return f"{min(values):+.4%} to {max(values):+.4%}" if values else "-"

    return [
        row.layout.name,
        f"{row.composed} of {row.layout.stages}",
        between(row.used),
        between(row.fragments),
        f"{row.step:+.4%}" if row.composed else "-",
    ]


if __name__ == "__main__":
    main()
