"""Which ranks of a layout are dry-run, and that runs of one file under other keys are told apart."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from swapconf.config.overrides import changed, of_file
from swapconf.dryrun import fan_out
from swapconf.dryrun.child import Ran, record
from swapconf.dryrun.kept_runs import reports_of
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout.layout import Layout, layout_of
from swapconf.layout.runs import Candidate, RunSettings, asked_of, candidates
from swapconf.study.study import study_for_check
from swapconf.upstream.facts import Versions
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
    assert not any(place is not None and place.exists() for place in places), "nothing was run yet"


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


class Refusing:
    """In place of `fan_out.dry_run_each`: all is refused for one reason, and recorded as a child does."""

    def __init__(self, why: str) -> None:
        self.why, self.ran = why, list[RankOrder]()

    def __call__(
        self, orders: Sequence[RankOrder], jobs: int, dask: str | None = None
    ) -> Iterator[tuple[int, RankReport]]:
        for place, order in enumerate(orders):
            assert order.keep is not None
            self.ran.append(order)
            report = RankReport(
                file=order.document.file,
                rank=order.rank,
                stage=0,
                level=1,
                outcome=RankOutcome.STOPPED,
                detail=self.why,
            )
            versions = Versions.in_use()
            environment = {"mindspore": versions.mindspore, "mindformers": versions.mindformers}
            (order.keep / f"rank_{order.rank}").mkdir(parents=True, exist_ok=True)
            record(order, Ran(report=report, environment=environment), report)
            yield place, report


@pytest.mark.parametrize(
    ("why", "remembers", "runs"),
    [
        ("ValueError: the number of heads is not divisible", True, 1),
        ("ValueError: the number of heads is not divisible", False, 2),
        ("MemoryError", True, 2),
        ("OSError: [Errno 28] No space left on device", True, 2),
    ],
)
def test_a_layout_that_was_refused_is_not_run_again_unless_its_reason_may_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str, remembers: bool, runs: int
) -> None:
    refusing = Refusing(why)
    monkeypatch.setattr(fan_out, "dry_run_each", refusing)
    order = asked_of(candidate(ALONE), RunSettings(keep=tmp_path)).orders[0]
    for _ in range(2):
        known = reports_of([order], 1, reuse=True, remembers=remembers)
        assert known[tmp_path / "dp8-mb1x1", 0]["detail"] == why
    assert len(refusing.ran) == runs


def test_what_was_refused_is_run_under_other_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusing = Refusing("ValueError: no")
    monkeypatch.setattr(fan_out, "dry_run_each", refusing)
    order = asked_of(candidate(ALONE), RunSettings(keep=tmp_path)).orders[0]
    reports_of([order], 1, reuse=True, remembers=True)
    other = replace(order, document=changed(order.document, ("model.model_config.hidden_size=1024",)))
    reports_of([other], 1, reuse=True, remembers=True)
    assert len(refusing.ran) == 2
