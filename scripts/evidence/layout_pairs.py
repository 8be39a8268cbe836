#!/usr/bin/env python3
"""Pairs of layouts whose throughput is public, each predicted as `swapconf layout` ranks layouts.

    PYTHONPATH=. python scripts/evidence/layout_pairs.py [--only ID ...] [--write]

One rank of each stage is dry-run without a strategy (folded; kept in the cache, so that a second start goes on), and
what-if tells what the strategy of the layout makes of it. --write writes docs/evidence/layout-pairs.md.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import pair_counted
from cards import CARDS
from cases import LLAMA, ROOT
from evidence_page import kept, opening, paragraph, table
from pair_sides import Side, sides

from swapconf.dryrun.kept_runs import reports_of, without_trace
from swapconf.plan.judge import SLOWER, judge_of
from swapconf.plan.keys import best_of_keys
from swapconf.plan.limits import Budget
from swapconf.plan.runs import orders, place_of_baselines, without_strategy
from swapconf.study.study import study_for_run
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.timing.parts import StepParts, difference_us
from swapconf.whatif.evaluate import Evaluator
from swapconf.words.units import parse_bytes

PAIRS = Path(__file__).parent / "published" / "layout_pairs.csv"
PAGE = ROOT / "docs/evidence/layout-pairs.md"
SLOWER_LINK, EFFORT = 0.3, 0.1
# the model card of Llama 2 asks for it: without it MindSpore copies each weight for each micro-batch
ENVIRONMENT = {"MS_DEV_SIDE_EFFECT_LOAD_ELIM": "3"}


class Verdict(Enum):
    RIGHT = "right order"
    EQUAL = "equal, the true difference inside"
    EQUAL_TOO_NARROW = "equal, the true difference outside"
    WRONG = "wrong order"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """``figures``: of a and b, tokens a second of a card or relative; None where only the order is told (b is
    slower)."""

    name: str
    row: Mapping[str, str]
    figures: tuple[float, float] | None

    @property
    def is_clean(self) -> bool:
        return self.row["is_clean"] != "no"

    @property
    def measured(self) -> float | None:
        """By how much b is faster, relative to a."""
        return None if self.figures is None else self.figures[1] / self.figures[0] - 1


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """By how much b is faster, relative to a: ``more``, and its range. ``a``, ``b``: their steps a token of a card."""

    a: StepParts
    b: StepParts
    more: float
    low: float
    high: float

    @property
    def is_equal(self) -> bool:
        return self.low <= 0 <= self.high


def pairs() -> list[Pair]:
    with PAIRS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Pair(
            name=row["id"],
            row=row,
            figures=(float(row["figure_a"]), float(row["figure_b"])) if row["figure_b"] else None,
        )
        for row in rows
    ]


def verdict(pair: Pair, found: Predicted) -> Verdict:
    true = pair.measured
    if found.is_equal:
        inside = found.low < 0 if true is None else found.low <= true <= found.high
        return Verdict.EQUAL if inside else Verdict.EQUAL_TOO_NARROW
    is_faster = true is not None and true > 0
    return Verdict.RIGHT if (found.more > 0) == is_faster else Verdict.WRONG


def compared(a: StepParts, b: StepParts) -> Predicted:
    """Of two steps, each a token of a card."""
    more_us, low_us, high_us = difference_us(a, b)
    faster, least, most = (a.step_us / (a.step_us + us) - 1 for us in (more_us, high_us, low_us))
    return Predicted(a=a, b=b, more=faster, low=least, high=most)


# --- from a side to its step ------------------------------------------------------------------------------------------


def traces(side: Side) -> list[Path]:
    """One of each stage, without a strategy."""
    document = without_strategy(str(ROOT / LLAMA), side.changes())
    place = place_of_baselines(document, None)
    wanted = orders(document, study_for_run(document, os.environ), place, fold=True, timeout_seconds=1200)
    found = []
    for one in wanted:
        report = reports_of([one], 1, reuse=True)[place, one.rank]
        print(f"{side.name}, rank {one.rank}: {report['outcome']}, {report.get('seconds', 0):.0f} s", flush=True)
        if not (place / f"rank_{one.rank}" / "memory_block.csv").exists():
            raise ValueError(str(without_trace(report)))
        found.append(place / f"rank_{one.rank}")
    return found


def step(side: Side, card: str) -> StepParts:
    """Of one token of a card, with the slower link of `swapconf layout`."""
    machine, study, folders = Machine(hardware=hardware.load(card)), side.study(), traces(side)
    if side.budget:
        budget = Budget(card_bytes=parse_bytes(side.budget))
        judge = judge_of(study, folders, machine, budget, slower_link=SLOWER_LINK, max_entries=6)
        planned = best_of_keys(judge, EFFORT)
        print(f"{side.name}: {planned.verdict}, {judge.written(planned.chosen.plan)}", flush=True)
        return a_token(judge.parts(planned.chosen.plan), side)
    slower = machine.hardware.value("host_link_gbps") * (1 - SLOWER_LINK)
    slow = replace(machine, hardware=machine.hardware.having("host_link_gbps", slower, "slower"))
    evaluator = Evaluator(folders, study, [machine, slow])
    keys = [("as it is", rank) for rank in evaluator.ranks]
    return a_token(evaluator.parts(study.config, keys, SLOWER), side)


def a_token(parts: StepParts, side: Side) -> StepParts:
    times = 1 / side.tokens
    return replace(
        parts,
        step_us=parts.step_us * times,
        of_group_us=parts.of_group_us * times,
        gradients_us=parts.gradients_us * times,
        collectives_us=parts.collectives_us * times,
        copies_us=parts.copies_us * times,
        bubble_us=parts.bubble_us * times,
        beside_us=parts.beside_us * times,
        of_shape_us={shape: us * times for shape, us in parts.of_shape_us.items()},
    )


# --- the page ---------------------------------------------------------------------------------------------------------


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", metavar="ID")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    os.environ.update(ENVIRONMENT)
    known, counts, steps, found = sides(), pair_counted.counted(), dict[str, StepParts](), []
    for pair in pairs():
        if given.only and pair.name not in given.only:
            continue
        card = CARDS[pair.row["machine"]]
        for name in (pair.row["side_a"], pair.row["side_b"]):
            if name not in steps:
                steps[name] = pair_counted.step(*counts[name]) if name in counts else step(known[name], card)
        predicted = compared(steps[pair.row["side_a"]], steps[pair.row["side_b"]])
        found.append((pair, predicted))
        print(" | ".join(_cells(pair, predicted)), flush=True)
        print(_made_of(predicted), flush=True)
    if given.write:
        PAGE.write_text(page(found), encoding="utf-8")


def _made_of(found: Predicted) -> str:
    """What the two steps are made of, for the terminal."""
    return "; ".join(f"{which}: {_shares(one)}" for which, one in (("a", found.a), ("b", found.b)))


def _shares(one: StepParts) -> str:
    told = {
        "collectives": one.collectives_us,
        "of them gradients": one.gradients_us,
        "beside": one.beside_us,
        "bubbles": one.bubble_us,
        "copies": one.copies_us,
    }
    return ", ".join(f"{name} {us / one.step_us:.1%}" for name, us in told.items())


_HEAD = (
    *("id", "model", "a", "b", "measured a", "measured b", "b faster by", "predicted a", "predicted b"),
    *("b faster by", "range", "verdict", "what else differs"),
)


def _cells(pair: Pair, found: Predicted) -> list[str]:
    row, true = pair.row, pair.measured
    return [
        *(pair.name, f"{row['model']}, {row['sequence']}", f"{row['cards_a']}: {row['layout_a']}"),
        *(f"{row['cards_b']}: {row['layout_b']}", row["figure_a"], row["figure_b"] or "slower"),
        "slower" if true is None else f"{true:+.1%}",
        *(f"{1e6 / one.step_us:,.0f}" for one in (found.a, found.b)),
        *(f"{found.more:+.1%}", f"{found.low:+.1%} to {found.high:+.1%}", verdict(pair, found).value),
        row["beside"] or "nothing that is told",
    ]


def page(found: Sequence[tuple[Pair, Predicted]]) -> str:
    verdicts = [verdict(pair, predicted) for pair, predicted in found if pair.is_clean]
    held = sum(item in (Verdict.RIGHT, Verdict.EQUAL) for item in verdicts)
    result = (
        f"Of {len(verdicts)} public pairs of layouts that differ in little else, {held} are predicted in the right "
        f"order ({verdicts.count(Verdict.RIGHT)}) or called equal with the true difference inside the range "
        f"({verdicts.count(Verdict.EQUAL)})."
    )
    counts = [(item.value, str(verdicts.count(item))) for item in Verdict]
    return "\n".join(
        [
            *opening(
                "Public pairs of layouts",
                result,
                ("verdict", "pairs"),
                counts,
                "Made by scripts/evidence/layout_pairs.py; edit that.",
            ),
            *("## The pairs", ""),
            *table(_HEAD, [_cells(pair, predicted) for pair, predicted in found]),
            *("## How it was made", ""),
            *(line for text in _made() for line in paragraph(text)),
            *("## Sources", ""),
            *_sources(pair for pair, _ in found),
            *kept(PAGE),
            "",
        ]
    ).replace("\n\n\n", "\n\n")


def _made() -> Iterator[str]:
    yield (
        "Each layout is a YAML for mindformers 1.9 with the sizes, types and degrees that are published "
        "(`scripts/evidence/published/layout_sides.json`), of which one rank of each stage was dry-run, folded, "
        "without a strategy; what-if made the published recompute of it, and the step is that which "
        f"[`swapconf layout`](../how-to/layout.md) ranks by (host link {SLOWER_LINK:.0%} slower). Nothing is fitted "
        "to these pairs, but `collective_slowdown` is to model cards, of which two are CodeLlama-34B."
    )
    yield (
        "*Faster by* is of the tokens a second of a card. The *range* is that of the difference: what both layouts "
        "have alike of a kind of kernels is in neither's favour. Where it has both signs, `layout` calls them equal."
    )


def _sources(told: Iterator[Pair]) -> list[str]:
    return [f"- {pair.name}: {pair.row['source']}" for pair in told]


if __name__ == "__main__":
    main()
