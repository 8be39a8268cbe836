"""docs/evidence/whole-device.md is what its script makes, and hardware profiles have what was fitted on one half."""

from __future__ import annotations

import pytest
import whole_device

from swapconf.timing import hardware
from tests.helpers import ROOT


def test_the_page_is_what_the_script_makes() -> None:
    page = (ROOT / "docs/evidence/whole-device.md").read_text(encoding="utf-8")
    assert page == whole_device.page(), "run: just generate"


def test_the_shipped_ranges_are_those_of_the_fitted_half_rounded_outward() -> None:
    card = hardware.load(hardware.GENERIC).card
    for part, (least, middle, most) in whole_device.fitted(whole_device.halves()[0]).items():
        assert least - 0.05 < card[f"{part}_least_gib"].value <= least
        assert card[f"{part}_gib"].value == pytest.approx(middle, abs=0.02)
        assert most <= card[f"{part}_most_gib"].value < most + 0.1


def test_all_public_runs_but_one_at_most_lie_in_the_range() -> None:
    runs = whole_device.runs()
    assert len(runs) == 25
    assert sum(run.is_inside for run in runs) >= 24


def test_pools_of_the_profiler_are_whole_mebibytes() -> None:
    assert all(run.pool_bytes % 2**20 == 0 for run in whole_device.runs())
