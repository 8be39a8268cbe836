"""FACTS -> STEP of a layout that was not dry-run: its kernels counted from shapes, as `cards.py` counts those of model
cards, with no scale: what is exposed is as a dry run has it, and gradients are added up behind all else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cards
import numpy as np

from swapconf.timing import hardware
from swapconf.timing.costing import COMMON_GROUPS, EXCHANGES
from swapconf.timing.parts import Shapes, StepParts, of_shapes
from swapconf.timing.timing import PipelineSchedule

FACTS = Path(__file__).parent / "published" / "layout_sides.json"
_PLAIN = cards.Scale()
_OPTIMIZER = "elementwise"  # the kernels that weights pass through


def counted() -> dict[str, tuple[cards.Card, int]]:
    """By name of the side, and how many parts of the model each stage has. Those of model cards are named by their
    YAML."""
    told = json.loads(FACTS.read_text(encoding="utf-8"))["counted"]
    known = {(card.yaml, card.hardware): card for card in cards.cards()}
    return {
        name: (known[item["yaml"], item["machine"]], 1)
        if "yaml" in item
        else (_card(name, item), item.get("chunks", 1))
        for name, item in told.items()
    }


def _card(name: str, item: Mapping[str, Any]) -> cards.Card:
    told = {key: value for key, value in item.items() if key not in ("chunks", "machine")}
    usual: dict[str, Any] = dict.fromkeys(("branch", "page", "yaml", "optimizer"), "")
    usual |= dict.fromkeys(("compute", "params", "rotary"), "bfloat16")
    usual |= dict.fromkeys(("dp", "accumulation", "micro", "interleave"), 1)
    usual |= {"name": name, "tokens_per_s": 1.0, "recompute": False, "select": False, "offset": 0}
    return cards.Card(**{**usual, "hardware": item["machine"], **told})


def step(card: cards.Card, chunks: int) -> StepParts:
    """Of one token of a card."""
    made_of = cards.parts(card, hardware.load(cards.CARDS[card.hardware]))
    micro_us = [compute + tensor for compute, tensor in zip(made_of.compute, made_of.tensor, strict=True)]
    plan = PipelineSchedule(num_stages=card.pp, num_micro_batches=card.rounds, num_chunks=chunks)
    rounds_us = plan.step_us(micro_us)
    group, us = made_of.costs.group, made_of.costs.duration_us.copy()
    exchanges, optimizer = COMMON_GROUPS.index(EXCHANGES), COMMON_GROUPS.index(_OPTIMIZER)
    waited = cards.OVERLAPPED if card.interleave > 1 else 1.0
    us[group == exchanges] *= waited
    us *= rounds_us / float(us.sum())
    of_group = np.bincount(group, weights=us, minlength=len(made_of.costs.spread))
    tensor_us = float(of_group[exchanges])
    of_group[optimizer] += made_of.last
    of_group[exchanges] += made_of.data
    times = card.dp * card.tp * card.pp / (card.tokens * card.rounds * card.dp)
    slowest = max(micro_us) * card.rounds
    return StepParts(
        step_us=(rounds_us + made_of.last + made_of.data) * times,
        of_group_us=of_group * times,
        spread=made_of.costs.spread,
        gradients_us=made_of.data * times,
        collectives_us=(tensor_us + made_of.data) * times,
        copies_us=0.0,
        bubble_us=(rounds_us - slowest) * times,
        beside_us=tensor_us * (1 / waited - 1) * times,
        of_shape_us=of_shapes(us * times, group, Shapes(index=np.arange(len(us)), known=made_of.signatures)),
    )
