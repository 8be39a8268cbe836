"""Which stages of layouts are run, and which are composed from runs of others.

The runs are recorded ones of Qwen3 (see test_composing.py): stage 0 of 4, two layers in each, six micro-batches.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from swapconf.dryrun.composing import keep
from swapconf.dryrun.composing.composed import composed
from swapconf.dryrun.composing.stage import Stage
from swapconf.dryrun.kept_runs import Reports
from swapconf.dryrun.rank_order import RankOrder
from swapconf.layout.layout import Layout
from swapconf.layout.stages import COMPOSED, Asked, Stages, asked
from swapconf.report.layout_progress import not_composed
from swapconf.trace import run_record
from tests.unit.test_composing import first, stage

FOUR = Layout(data=1, tensors=2, stages=4, batch=1, micro_batches=6, deal=((2, 2, 2, 2),))
TWO = Layout(data=1, tensors=2, stages=2, batch=1, micro_batches=4, deal=((2, 2),))
PEAK_OF_TWO = 180_169_728  # of its own run


def asked_of(place: Path, one: Stage) -> Asked:
    """The first stage alone."""
    order = RankOrder(document=one.study.document, rank=0, keep=place)
    return asked(one.study, [order], [])


@pytest.fixture
def wanted(tmp_path: Path) -> dict[Layout, Asked]:
    return {TWO: asked_of(tmp_path / "two", stage(0, 2, 4, 4)), FOUR: asked_of(tmp_path / "four", stage(0, 4, 8, 6))}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the recorded run left behind."""
    place = tmp_path_factory.mktemp("run")
    keep.keep(composed(first().stage, [first()]), place)
    return place


class Recorded:
    """In place of dry runs: each order leaves the recorded run of four stages behind. ``is_told``: with a record of
    what it is a run of."""

    def __init__(self, run: Path, *, is_told: bool = True, stops: Sequence[str] = ()) -> None:
        self.run, self.is_told, self.stops, self.ran = run, is_told, stops, list[str]()

    def __call__(self, orders: Sequence[RankOrder]) -> Reports:
        found: Reports = {}
        for order in orders:
            assert order.keep is not None
            self.ran.append(order.keep.name)
            stops = order.keep.name in self.stops
            shutil.copytree(self.run, order.keep, dirs_exist_ok=True)
            if not self.is_told:
                (order.keep / "rank_0" / run_record.FILE).unlink()
            found[order.keep, order.rank] = {
                "rank": order.rank,
                "stage": 0,
                "outcome": "stopped with an error" if stops else "completed",
                "detail": "not this one",
                "used_peak_bytes": None if stops else 1,
                "with_fragments_peak_bytes": None if stops else 1,
                "host_bytes": 0,
                "fold_note": "",
            }
        return found


def test_a_stage_that_a_run_of_another_layout_tells_is_not_run(
    wanted: dict[Layout, Asked], run: Path, tmp_path: Path
) -> None:
    runner = Recorded(run)
    stages = Stages(runner=runner)
    assert stages.to_run(wanted) == 1
    found, broken = stages.traces(wanted)
    assert not broken
    assert runner.ran == ["four"]  # which keeps more micro-batches in flight
    assert found[FOUR].origins == ("",)
    assert found[TWO].origins == ("composed from dry runs of 2 layers with 4 of 6 micro-batches in flight",)
    assert (found[TWO].ran, found[TWO].composed) == (0, 1)
    assert found[TWO].folders == (tmp_path / "two" / COMPOSED / "rank_0",)
    assert keep.source(found[TWO].folders[0]).trace.used_peak_bytes == pytest.approx(PEAK_OF_TWO, rel=0.0001)


def test_of_a_role_that_stage_is_run_of_which_all_others_can_be_composed(tmp_path: Path) -> None:
    """With as many micro-batches as stages: stages 4 and 5 keep enough in flight, and have enough pairs of passes."""
    eight = Layout(data=1, tensors=2, stages=8, batch=1, micro_batches=8, deal=((2,) * 8,))
    study = stage(0, 8, 16, 8).study
    orders = [RankOrder(document=study.document, rank=2 * number, keep=tmp_path) for number in range(8)]
    wanted = {eight: asked(study, orders, [])}
    stages = Stages(runner=lambda _: {})
    composed = {part.number for part in stages._dealt(wanted, ())}
    assert composed == {1, 2, 3, 6}
    assert stages.to_run(wanted) == 4


def test_all_stages_of_a_layout_are_run_where_that_is_asked_for(
    wanted: dict[Layout, Asked], run: Path, tmp_path: Path
) -> None:
    runner = Recorded(run)
    stages = Stages(runner=runner)
    stages.traces(wanted)
    assert stages.to_run({TWO: wanted[TWO]}, truly={TWO}) == 1
    found, _ = stages.traces({TWO: wanted[TWO]}, truly={TWO})
    assert runner.ran == ["four", "two"]
    assert (found[TWO].ran, found[TWO].composed) == (1, 0)
    assert found[TWO].folders == (tmp_path / "two" / "rank_0",)
    assert stages.to_run(wanted) == 0


def test_without_composing_all_are_run(wanted: dict[Layout, Asked], run: Path) -> None:
    runner = Recorded(run)
    stages = Stages(runner=runner, composes=False)
    assert stages.to_run(wanted) == 2
    found, _ = stages.traces(wanted)
    assert sorted(runner.ran) == ["four", "two"]
    assert not any(item.composed for item in found.values())


def test_what_does_not_compose_after_all_is_run(wanted: dict[Layout, Asked], run: Path) -> None:
    runner = Recorded(run, is_told=False)
    stages = Stages(runner=runner)
    found, broken = stages.traces(wanted)
    assert runner.ran == ["four", "two"]
    assert not broken
    ((why, count),) = stages.not_composed.items()
    assert count == 1
    assert not_composed(count, why).startswith("1 stage that was to be composed had to be run: there is no run")
    assert (found[TWO].ran, found[TWO].composed) == (1, 0)


def test_nothing_is_composed_from_a_layout_that_is_refused(wanted: dict[Layout, Asked], run: Path) -> None:
    runner = Recorded(run, stops=["four"])
    found, broken = Stages(runner=runner).traces(wanted)
    assert list(broken) == [FOUR]
    assert runner.ran == ["four", "two"]
    assert found[TWO].composed == 0


def test_a_layout_whose_step_swap_turns_is_run(wanted: dict[Layout, Asked], run: Path) -> None:
    item = wanted[TWO]
    wanted[TWO] = Asked(orders=item.orders, turned=item.orders, offered=item.offered)
    assert Stages(runner=Recorded(run)).to_run(wanted) == 3
