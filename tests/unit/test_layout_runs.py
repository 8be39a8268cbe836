"""Which ranks of a layout are dry-run, and that runs of one file under other keys are told apart."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from swapconf.config.overrides import of_file
from swapconf.dryrun import fan_out
from swapconf.dryrun.kept_runs import reports_of
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout.layout import Layout, layout_of
from swapconf.layout.runs import Candidate, RunSettings, asked_of, candidates
from swapconf.study.study import study_for_check
from swapconf.whatif.inlined import SWAP_ON
from tests.helpers import ROOT

QWEN3 = str(ROOT / "configs/small/qwen3_default_swap.yaml")
STAGED = Layout(data=2, tensors=2, stages=2, batch=1, micro_batches=4, deal=((2, 2),))
ALONE = Layout(data=8, tensors=1, stages=1, batch=1, micro_batches=1, deal=((4,),))


def candidate(layout: Layout) -> Candidate:
    study = study_for_check(of_file(QWEN3), os.environ)
    (found,), refused = candidates(study, (), [layout])
    assert not refused
    return found


def test_one_rank_of_each_stage_is_run_without_the_strategy_of_the_yaml(tmp_path: Path) -> None:
    orders = asked_of(candidate(STAGED), RunSettings(keep=tmp_path)).every
    assert [order.rank for order in orders] == [0, 4]
    assert {order.keep for order in orders} == {tmp_path / "dp2-tp2-pp2-mb1x4"}
    swap = orders[0].document.entry_at("swap_config.swap")
    assert swap is not None
    assert swap.value.plain() is False


def test_a_step_that_swap_turns_is_run_with_swap_on_as_well(tmp_path: Path) -> None:
    orders = asked_of(candidate(ALONE), RunSettings(keep=tmp_path)).every
    assert [(order.rank, order.keep) for order in orders] == [
        (0, tmp_path / "dp8-mb1x1"),
        (0, tmp_path / "dp8-mb1x1" / SWAP_ON),
    ]


def test_each_layout_has_its_own_place_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places = {order.keep for layout in (STAGED, ALONE) for order in asked_of(candidate(layout), RunSettings()).every}
    assert len(places) == 3
    again = {order.keep for layout in (ALONE, STAGED) for order in asked_of(candidate(layout), RunSettings()).every}
    assert again == places


def test_runs_of_one_rank_of_one_file_under_other_keys_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = [asked_of(candidate(layout), RunSettings(keep=tmp_path)).orders[0] for layout in (STAGED, ALONE)]

    def dry_run_each(
        orders: Sequence[RankOrder], jobs: int, dask: str | None = None
    ) -> Iterator[tuple[int, RankReport]]:
        for place in reversed(range(len(orders))):  # as they come
            order = orders[place]
            data = layout_of(study_for_check(order.document, os.environ)).data
            yield (
                place,
                RankReport(
                    file=order.document.file,
                    rank=order.rank,
                    stage=0,
                    level=1,
                    outcome=RankOutcome.COMPLETED,
                    used_peak_bytes=data,
                ),
            )

    monkeypatch.setattr(fan_out, "dry_run_each", dry_run_each)
    known = reports_of(first, 2)
    peaks = []
    for order in first:
        assert order.keep is not None
        peaks.append(known[order.keep, order.rank]["used_peak_bytes"])
    assert peaks == [2, 8]
