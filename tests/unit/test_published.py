"""docs/evidence/published-measurements.md is what the script makes, and the model is as close as it says."""

from __future__ import annotations

import published
import pytest

from swapconf.timing import hardware
from tests.helpers import ROOT


def test_the_page_is_what_the_script_makes() -> None:
    assert (ROOT / "docs/evidence/published-measurements.md").read_text(encoding="utf-8") == published.page(), (
        "run: just generate"
    )


def test_peak_rates_are_a_lower_bound_of_every_measured_time() -> None:
    paper, card = published._data("korthikanti_2022.json"), hardware.read(published.HERE / "a100.json")
    for row, (forward, backward) in zip(paper["layer_ms"], published.layer_ms(paper, card), strict=True):
        assert forward < row["forward"]
        assert backward < row["backward"]
    for _, full, present, _, full_found, present_found, _ in published.increases(paper, card):
        assert full_found < full
        assert present_found < present


def test_the_overhead_of_recompute_is_off_by_two_points_at_most() -> None:
    paper, card = published._data("korthikanti_2022.json"), hardware.read(published.HERE / "a100.json")
    for name, measured, found in published.overheads(paper, published.layer_ms(paper, card)):
        assert found == pytest.approx(measured, abs=0.021), name


def test_what_was_measured_on_ascend_is_below_what_peak_rates_allow() -> None:
    told, card = published._data("mindspeed.json"), hardware.load("ascend_910b2")
    for row in told["utilisation"]["rows"]:
        assert row["mfu"] < published.utilisation(told, row["model"], card) < 1
    for row in told["adaptive_recompute"]["rows"]:
        assert row["gain"] < published.ceiling(told, row["model"], card)


def test_every_measured_figure_has_a_source() -> None:
    ascend = published._data("mindspeed.json")
    for told in (published._data("korthikanti_2022.json"), ascend["utilisation"], ascend["adaptive_recompute"]):
        assert len(told["source"]) > 40
