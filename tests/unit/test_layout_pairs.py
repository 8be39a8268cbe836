"""Public pairs of layouts: each names layouts that can be made, and is judged by its range."""

from __future__ import annotations

import cards
import numpy as np
import pair_counted
import pair_sides
import pytest
from layout_pairs import Pair, Verdict, compared, pairs, verdict

from swapconf.timing import hardware
from swapconf.timing.parts import StepParts

PAIRS = {pair.name: pair for pair in pairs()}


def taking(us: float, beside_us: float = 0.0) -> StepParts:
    return StepParts(
        step_us=us,
        of_group_us=np.array([us]),
        spread=((0.9, 1.1),),
        gradients_us=0.0,
        collectives_us=0.0,
        copies_us=0.0,
        bubble_us=0.0,
        beside_us=beside_us,
    )


def told(figures: tuple[float, float] | None) -> Pair:
    return Pair(name="x", row={"is_clean": "yes"}, figures=figures)


def test_every_pair_has_a_source_and_layouts_that_are_known() -> None:
    known = {*pair_sides.sides(), *pair_counted.counted()}
    for pair in PAIRS.values():
        assert pair.row["source"]
        assert {pair.row["side_a"], pair.row["side_b"]} <= known
        assert pair.row["machine"] in cards.CARDS


@pytest.mark.parametrize("side", pair_sides.sides().values(), ids=lambda side: side.name)
def test_a_layout_is_a_yaml_without_errors_for_its_cards(side: pair_sides.Side) -> None:
    study = side.study()
    assert not study.is_refused
    assert study.network is not None
    assert study.network.is_known
    cards = {
        int(row["cards_" + which])
        for row in (pair.row for pair in PAIRS.values())
        for which in "ab"
        if row["side_" + which] == side.name
    }
    assert cards <= {side.cards}


def test_a_card_of_a_pair_is_counted_as_the_model_cards_are() -> None:
    card, chunks = pair_counted.counted()["card codellama 16p"]
    found = pair_counted.step(card, chunks)
    made_of = cards.parts(card, hardware.load("ascend_910b2"))
    seconds, _, _ = cards.step(card, made_of, cards.Scale())
    assert found.step_us * card.tokens * card.rounds / (card.tp * card.pp) == pytest.approx(seconds * 1e6)
    assert float(found.of_group_us.sum()) == pytest.approx(found.step_us)
    assert 0.8 * found.step_us < sum(found.of_shape_us.values()) < found.step_us


@pytest.mark.parametrize(
    ("b", "figures", "expected"),
    [
        (taking(50.0), (1.0, 1.9), Verdict.RIGHT),
        (taking(50.0), (1.9, 1.0), Verdict.WRONG),
        (taking(200.0), (1.9, 1.0), Verdict.RIGHT),
        (taking(200.0), None, Verdict.RIGHT),
        (taking(50.0), None, Verdict.WRONG),
        (taking(90.0, beside_us=40.0), (1.0, 0.9), Verdict.EQUAL),
        (taking(90.0, beside_us=40.0), (1.0, 0.5), Verdict.EQUAL_TOO_NARROW),
        (taking(90.0, beside_us=40.0), None, Verdict.EQUAL),
    ],
)
def test_a_verdict_is_of_the_order_or_of_the_range(
    b: StepParts, figures: tuple[float, float] | None, expected: Verdict
) -> None:
    assert verdict(told(figures), compared(taking(100.0), b)) is expected


def test_faster_by_is_of_throughput() -> None:
    found = compared(taking(100.0), taking(80.0))
    assert found.more == pytest.approx(0.25)
    assert found.low < 0.25 < found.high
