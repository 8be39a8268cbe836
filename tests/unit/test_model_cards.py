"""docs/evidence/model-cards.md is what the script makes, and steps are as close to the cards as it says."""

from __future__ import annotations

from functools import cache

import cards
import numpy as np
import pytest

from tests.helpers import ROOT


@cache
def priced() -> list[tuple[cards.Card, cards.Parts]]:
    return cards.priced()


def test_the_page_is_what_the_script_makes() -> None:
    made = cards.page(priced(), cards.told())
    assert (ROOT / "docs/evidence/model-cards.md").read_text(encoding="utf-8") == made, "run: just generate"


@pytest.mark.parametrize("fitted_to", ["first", "second"])
def test_cards_that_were_not_fitted_take_what_is_predicted(fitted_to: str) -> None:
    scale = cards.Scale(**cards.told()["scale"][fitted_to])
    others = [item for item in priced() if cards.in_first_half(item[0]) is (fitted_to == "second")]
    errors = np.abs(cards.off(others, scale))
    assert len(errors) >= 18
    assert np.median(errors) <= 0.12
    assert errors.max() <= 0.25


def test_dry_runs_with_the_true_kernels_take_what_the_cards_tell() -> None:
    known = {(card.yaml, card.hardware): card for card in cards.cards()}
    rows = cards.told()["dry_runs"]["rows"]
    assert len(rows) > 3
    for row in rows:
        measured_s = known[row["yaml"], row["hardware"]].measured_s
        assert row["low_s"] <= measured_s <= row["high_s"]
        assert row["step_s"] == pytest.approx(measured_s, rel=0.12)


def test_all_cards_fit_by_the_middle() -> None:
    """They ran on cards of 64 GB."""
    rows = cards.told()["memory_runs"]["rows"]
    assert len(rows) > 12
    for row in rows:
        assert row["least_gib"] <= row["middle_gib"] <= min(row["most_gib"], cards.CARD_GIB)
        if "used_gib" in row:
            assert row["used_gib"] <= min(row["fragments_gib"], row["least_gib"])


def test_no_yaml_is_in_both_halves_and_most_are_told_with_their_reason_where_they_are_left_out() -> None:
    halves = [{card.yaml for card in cards.cards() if cards.in_first_half(card) is first} for first in (True, False)]
    assert halves[0].isdisjoint(halves[1])
    assert all(item["why"] for item in cards.told()["left_out"])


def test_a_model_of_llama_2_7b_has_its_parameters() -> None:
    card = next(card for card in cards.cards() if card.name == "llama2_7b")
    assert cards.parameters(card, 0) == pytest.approx(6.738e9, rel=0.01)
