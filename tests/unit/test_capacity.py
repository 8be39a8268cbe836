"""How many children run at once: a large model takes more of this machine than a small one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapconf.config import overrides
from swapconf.dryrun import capacity
from swapconf.dryrun.capacity import child_bytes, jobs_at_once, layers_run
from swapconf.dryrun.fold.orders import expected_seconds
from swapconf.dryrun.rank_order import RankOrder
from swapconf.words.units import GIB

FREE_BYTES = capacity.free_bytes
FILE = Path(__file__).parents[1] / "traces/llama.yaml"


def order(num_layers: int, stages: int = 1, *, fold: bool = False) -> RankOrder:
    changes = (f"model.model_config.num_layers={num_layers}", f"parallel_config.pipeline_stage={stages}")
    return RankOrder(document=overrides.of_file(str(FILE), changes), rank=0, fold=fold)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_bytes", lambda: 24 * GIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(16))


@pytest.mark.parametrize(("num_layers", "measured_gb"), [(4, 0.9), (16, 2.5), (24, 3.6), (16, 1.8)])
def test_no_child_that_was_measured_took_more(num_layers: int, measured_gb: float) -> None:
    assert measured_gb * 1e9 <= child_bytes(num_layers) <= 2.5 * measured_gb * 1e9


def test_more_layers_of_all_stages_mean_fewer_children() -> None:
    assert jobs_at_once([order(4)]) == 16
    assert jobs_at_once([order(24, 4)]) == 6
    assert jobs_at_once([order(80, 8)]) == 2
    assert jobs_at_once([order(4), order(80, 8)]) == 2
    assert jobs_at_once([order(800, 8)]) == 1


def test_of_a_folded_model_only_few_layers_of_each_stage_count() -> None:
    assert layers_run(order(80, 4)) == 80
    assert layers_run(order(80, 4, fold=True)) == 36
    assert layers_run(order(8, 4, fold=True)) == 8


def test_what_is_asked_for_counts_and_without_orders_a_child_is_guessed() -> None:
    assert jobs_at_once([order(80)], asked=5) == 5
    assert jobs_at_once([order(80)], asked=0) == 1
    assert jobs_at_once([]) == 8


def test_what_the_system_gives_back_at_once_counts_as_free() -> None:
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(told["MemAvailable"].split()[0]) * 1024
    assert FREE_BYTES() == pytest.approx(available, abs=2 * GIB)


def test_a_run_is_expected_to_take_as_long_as_its_fold_does() -> None:
    """Published Qwen3-32B and Llama-3.1-8B took 11 to 15 seconds a part of a few layers, and a minute with 15."""
    least, most = expected_seconds(order(64, 4, fold=True))
    assert 15 < least <= most < 240
    assert expected_seconds(order(24, 4, fold=True)) < (least, most)
    whole, same = expected_seconds(order(24, 4))
    assert whole == same > least
