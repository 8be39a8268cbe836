"""The first step of a trace alone: what a strategy does there, in all steps, is what it does in the whole trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapconf.decide.strategy import Strategy
from swapconf.trace.lifetimes import Lifetimes
from swapconf.whatif.baseline_step import Step, step_of
from swapconf.whatif.one_step import OneStep, one_step
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import prediction, schedule
from swapconf.whatif.predicted_program import predicted_program
from swapconf.whatif.prediction import Moves
from swapconf.whatif.prepare import prepare
from swapconf.whatif.unfused import unfused
from tests.helpers import RECORDED_WITH, TRACES, golden, packed, study_of, study_of_values

IN_ORDER, FUSED = TRACES / "in_order", TRACES / "fused_in_order"
ALIKE = (
    "qwen3_moe_not_inlined",
    "deepseek_v3_experts_added",
    "glm2_bias_recomputed",
    "glm2_not_sliced",
    "glm2_parallel_optimizer",
    "llama_excluded_cast",
    "llama_last_sum_gathered",
    "llama_parallel_optimizer",
    "qwen3_accumulated",
    "qwen3_moe_parallel_optimizer",
    "telechat3_moe_view_left_out",
    "telechat3_recomputed_norms",
)
ALIKE_FUSED = ("llama", "qwen3_gathered_behind_a_view")
USUAL = IN_ORDER / "glm2_not_sliced"
HELD_LONGER = IN_ORDER / "glm2_received"  # what the first step sends is held until the second waits for it
RUNS = [
    pytest.param(folder, run, id=f"{folder.name}-{number}")
    for folder in (*(IN_ORDER / name for name in ALIKE), *(FUSED / name for name in ALIKE_FUSED))
    for number, run in enumerate(json.loads((folder / "strategies.json").read_text()))
]
NOTHING = {"swap_config": {"swap": False}, "recompute_config": {"recompute": False}}


@cache
def whole(folder: Path) -> tuple[PlacedBaseline, Step]:
    network, trace = study_of(folder / "model.yaml").network, packed(folder)
    assert network is not None
    prepared = placed(prepare(unfused(trace)), network)
    return prepared, step_of(trace, prepared.baseline)


@cache
def first(folder: Path) -> OneStep:
    found = one_step(*whole(folder))
    assert found is not None
    return found


def strategy(folder: Path, run: Mapping[str, Any]) -> Strategy:
    plain = study_of(folder / "model.yaml").document.root.plain()
    assert isinstance(plain, dict)
    asked = {key: run[key] for key in NOTHING}
    found = study_of_values({**plain, **asked}, versions=RECORDED_WITH).strategy
    assert found is not None
    return found


def in_order(device: Lifetimes) -> list[list[Any]]:
    """All that an allocator sees of it; between two kernels events may be closer to one another or less so."""
    columns = (device.events, device.size_bytes, device.is_persistent, device.category, device.layer, device.name)
    return [column.tolist() for column in columns]


def moved(moves: Moves) -> list[tuple[int, ...]]:
    columns = (moves.site, moves.size_bytes, moves.host_bytes, moves.prefetch, moves.unread, moves.underflows)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(("folder", "run"), RUNS)
def test_one_step_in_all_steps_is_the_whole_trace(folder: Path, run: Mapping[str, Any]) -> None:
    (prepared, step), alone, asked = whole(folder), first(folder), strategy(folder, run)
    all_steps, once = schedule(prepared, asked), schedule(alone.prepared, asked)
    expected, found = prediction(prepared, all_steps), prediction(prepared, alone.repeated(once))
    assert in_order(found.device) == in_order(expected.device)
    assert moved(found.moves) == moved(expected.moves)
    assert found.moves.host.peak_bytes == expected.moves.host.peak_bytes
    assert (found.recomputed, found.steps) == (expected.recomputed, expected.steps)
    assert found.used_peak_bytes == expected.used_peak_bytes
    programs = predicted_program(step, all_steps, expected.moves), predicted_program(alone.step, once, found.moves)
    made, repeated = (one.program for one in programs)
    assert repeated.names == made.names
    assert programs[1].row.tolist() == programs[0].row.tolist()
    for column in ("waiter", "awaited"):
        assert getattr(repeated.waits, column).tolist() == getattr(made.waits, column).tolist()


@pytest.mark.parametrize("name", ALIKE[:3])
def test_what_was_asked_before_changes_nothing(name: str) -> None:
    """Regions, what runs again and where copies run are known from one strategy to the next."""
    folder = IN_ORDER / name
    network = study_of(folder / "model.yaml").network
    assert network is not None
    for run in [*json.loads((folder / "strategies.json").read_text()), NOTHING]:
        asked = strategy(folder, run)
        again = schedule(whole(folder)[0], asked)
        anew = schedule(placed(prepare(packed(folder)), network), asked)
        for column in ("where", "inserted"):
            assert getattr(again.program, column).tolist() == getattr(anew.program, column).tolist()
        for column in ("block", "prefetch", "copied", "released", "returned", "unread", "underflows", "apart"):
            assert getattr(again.windows, column).tolist() == getattr(anew.windows, column).tolist()


def test_without_a_strategy_nothing_changes() -> None:
    (prepared, _), alone = whole(USUAL), first(USUAL)
    found = prediction(prepared, alone.repeated(schedule(alone.prepared, strategy(USUAL, NOTHING))))
    assert in_order(found.device) == in_order(prepared.baseline.blocks)


def test_a_trace_of_one_step_has_no_step_of_its_own() -> None:
    network = study_of(TRACES / "llama.yaml", "model.model_config.num_layers=2").network
    assert network is not None
    prepared = placed(prepare(golden("llama_l2_none")), network)
    assert prepared.baseline.steps == 1
    assert one_step(prepared, step_of(golden("llama_l2_none"), prepared.baseline)) is None


def test_steps_are_not_alike_where_one_holds_something_for_the_next() -> None:
    assert one_step(*whole(HELD_LONGER)) is None


@pytest.mark.parametrize("column", ["block", "kernel", "until", "face", "via"])
def test_steps_that_read_otherwise_are_no_steps_alike(column: str) -> None:
    prepared, step = whole(USUAL)
    reads = prepared.baseline.reads
    values = getattr(reads, column).copy()
    values[np.argmax(reads.kernel)] -= 1
    other: dict[str, Any] = {column: values}
    changed = replace(prepared.baseline, reads=replace(reads, **other))
    assert one_step(replace(prepared, baseline=changed), step) is None


@pytest.mark.parametrize("column", ["start", "size_bytes"])
def test_steps_that_make_other_blocks_are_no_steps_alike(column: str) -> None:
    prepared, step = whole(USUAL)
    blocks = prepared.baseline.blocks
    values = getattr(blocks, column).copy()
    values[np.argmax(prepared.baseline.maker)] += 1
    other: dict[str, Any] = {column: values}
    changed = replace(prepared.baseline, blocks=replace(blocks, **other))
    assert one_step(replace(prepared, baseline=changed), step) is None


@pytest.mark.parametrize("column", ["name", "cell", "primitive"])
def test_steps_that_launch_other_kernels_are_no_steps_alike(column: str) -> None:
    prepared, step = whole(USUAL)
    kernels = prepared.baseline.kernels
    other: dict[str, Any] = {column: (*getattr(kernels, column)[:-1], "another")}
    changed = replace(kernels, **other)
    assert one_step(replace(prepared, baseline=replace(prepared.baseline, kernels=changed)), step) is None
