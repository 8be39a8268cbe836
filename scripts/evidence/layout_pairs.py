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
        written = judge.written(planned.chosen.plan)
        print(f"{side.name}: {planned.verdict.name}, {written.swap}, {written.recompute}", flush=True)
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
    *("b faster by", "range", "verdict", "by", "what else differs"),
)


def _cells(pair: Pair, found: Predicted) -> list[str]:
    row, true = pair.row, pair.measured
    return [
        *(pair.name, f"{row['model']}, {row['sequence']}", f"{row['cards_a']}: {row['layout_a']}"),
        *(f"{row['cards_b']}: {row['layout_b']}", row["figure_a"], row["figure_b"] or "slower"),
        "slower" if true is None else f"{true:+.1%}",
        *(f"{1e6 / one.step_us:,.0f}" for one in (found.a, found.b)),
        *(f"{found.more:+.1%}", f"{found.low:+.1%} to {found.high:+.1%}", verdict(pair, found).value),
        "dry runs" if row["side_a"] in sides() else "counts",
        row["beside"] or "nothing that is told",
    ]


def page(found: Sequence[tuple[Pair, Predicted]]) -> str:
    clean, others = (
        [verdict(pair, predicted) for pair, predicted in found if pair.is_clean is which] for which in (True, False)
    )
    held = sum(item in (Verdict.RIGHT, Verdict.EQUAL) for item in clean)
    told = [item for item in others if item in (Verdict.RIGHT, Verdict.WRONG)]
    result = (
        f"Of {len(clean)} public pairs of layouts that differ in little else, {held} are predicted in the right order "
        f"({clean.count(Verdict.RIGHT)}) or called equal with the true difference inside the range "
        f"({clean.count(Verdict.EQUAL)}). Of {len(others)} others, {len(told)} are not called equal, and "
        f"{told.count(Verdict.RIGHT)} of these are in the right order."
    )
    counts = [(item.value, str(clean.count(item)), str(others.count(item))) for item in Verdict]
    parted = [
        (title, [_cells(pair, predicted) for pair, predicted in found if pair.is_clean is which])
        for title, which in (("## Pairs that differ in little else", True), ("## Others", False))
    ]
    return "\n".join(
        [
            *opening(
                "Public pairs of layouts",
                result,
                ("verdict", "pairs that differ in little else", "others"),
                counts,
                "Made by scripts/evidence/layout_pairs.py; edit that.",
            ),
            *(line for title, rows in parted for line in (title, "", *table(_HEAD, rows))),
            *("## How it was made", ""),
            *(line for text in _made() for line in paragraph(text)),
            *("## Not predicted", ""),
            *(line for text in _NOT_PREDICTED for line in [*paragraph(f"- {text}", "  ")][:-1]),
            *("", "## Sources", ""),
            *(line for pair, _ in found for line in [*paragraph(f"- {pair.name}: {pair.row['source']}", "  ")][:-1]),
            *kept(PAGE),
            "",
        ]
    )


_NOT_PREDICTED = (
    "Llama2-70B enlarged, 1,024 cards, + 70 % (mindformers, perf_optimize): neither the model nor its sequence is "
    "told, and input was mended in between.",
    "Bloom-176B, 96 cards, micro-batches of 4 and 2 (MindSpeed-LLM, d8727986): the older figure is of 4 micro-batches "
    "on 12 stages.",
    "ChatGLM3-6B, 8 cards, data and context parallel (MindSpeed-LLM, 1.0.RC3): sequences of 8,192 and 32,768; context "
    "parallelism is not counted here.",
    "Layers and micro-batches by stage, + 7.6 % (MindSpeed, automated-pipeline.md): the mean of three models, no "
    "layout is told.",
)


def _made() -> Iterator[str]:
    yield (
        "Each layout is a YAML for mindformers 1.9 with the sizes, types and degrees that are published "
        "(`scripts/evidence/published/layout_sides.json`), of which one rank of each stage was dry-run, folded, "
        "without a strategy; what-if made the published recompute of it, and the step is that which "
        f"[`swapconf layout`](../how-to/layout.md) ranks by (host link {SLOWER_LINK:.0%} slower). Nothing is fitted "
        "to these pairs, but `collective_slowdown` is to model cards, of which two are CodeLlama-34B."
    )
    yield (
        "Where dry runs cost too much, or mindformers 1.9 has no such model, kernels are counted from shapes as for "
        "[model cards](model-cards.md), with no scale, and gradients behind all else (*counts*). MindSpeed is PyTorch: "
        "its layouts are predicted as those of a mindformers YAML of the same shapes. Two halves of the tokens in "
        "turns, and collectives fused with products (mc2), are counted as hiding half of what tensor parallelism "
        "sends, as in the model cards. Where swap is told without what is swapped, it is planned for 58 GB. An Atlas "
        "900 A2 PoDc is taken for the layouts of mindformers, because the model cards of the same YAMLs are near these "
        "figures on it (Llama2-13B 1,911 to 1,945 tokens/s/p, on an Atlas 800T A2 1,691; CodeLlama-34B 669)."
    )
    yield (
        "Not blind: the batch and the machine of Llama2-13B, and that differences are in doubt by what runs beside "
        "computation and by shapes that the other layout has not, were settled when pairs 1 and 9 had been seen "
        "outside of narrower ranges. How wide these doubts are is from other figures: model cards with their true "
        "kernels, kernels by themselves, and collectives of 2, 4 and 8 cards (`swapconf/timing/parts.py`)."
    )
    yield (
        "*Faster by* is of the tokens a second of a card. The *range* is that of the difference: what both layouts "
        "have alike of a kind of kernels is in neither's favour. Where it has both signs, `layout` calls them equal."
    )


if __name__ == "__main__":
    main()
