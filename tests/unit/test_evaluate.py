"""Many strategies of one job: each is what a Question says of it, and what is known by its keys is not asked again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swapconf.compare import folders
from swapconf.compare.predicted import of_baseline
from swapconf.config.config import Config
from swapconf.decide.strategy import Strategy
from swapconf.plan.modes import RECOMPUTED, Atom, Mode, config_of, uniform
from swapconf.trace import grown_trace_writer, trace_folder
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.whatif import rerun
from swapconf.whatif.evaluate import Evaluator
from swapconf.whatif.evaluation import Ordered
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.inlined import SWAP_ON
from swapconf.whatif.parted import Own
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.question import Question
from swapconf.whatif.step_time import step_time
from tests.helpers import ROOT, TRACES, study_of, unpacked
from tests.unit.planning import evaluator, machines, study

NONE = TRACES / "llama_l2_none"
MODES: dict[str, Mode] = {
    "nothing": frozenset(),
    "full recompute": RECOMPUTED,
    "layers swapped": frozenset({Atom("swap", "", 5)}),
    "operators": frozenset({Atom("swap", "attention", 10), Atom("recompute", "feed_forward")}),
}


def strategy(mode: Mode, *, only_first: bool = False) -> Config:
    network = study().network
    assert network is not None
    plan = uniform(mode, network)
    return config_of((plan[0], frozenset()) if only_first else plan, study().config)


@cache
def question(machine: int) -> Question:
    return Question(NONE, study(), machine=machines()[machine])


@pytest.mark.parametrize("machine", [0, 1])
@pytest.mark.parametrize("name", MODES)
def test_a_strategy_is_what_a_question_says_of_it(name: str, machine: int) -> None:
    config = strategy(MODES[name])
    asked = replace(study(), config=config)
    answer = Question(NONE, asked, machine=machines()[machine]).answer()
    found = evaluator().evaluate(config, machine=machine)
    [rank] = found.ranks
    assert answer.times is not None
    assert found.step_us == pytest.approx(step_time(answer.times.step).step.us, rel=1e-12)
    assert rank.used_peak_bytes == answer.prediction.used_peak_bytes
    assert rank.moved_bytes == answer.prediction.moved_bytes
    assert rank.recomputed == answer.prediction.recomputed
    assert rank.host_peak_bytes == (answer.prediction.moves.host.peak_bytes if len(answer.prediction.moves) else 0)
    assert evaluator().with_fragments_bytes(config, [("whole", name)]) == (answer.placement.mapped_bytes,)


def test_a_slower_link_takes_longer_where_copies_are_waited_for_and_nowhere_else() -> None:
    steps = {
        name: [evaluator().evaluate(strategy(mode), machine=machine).step_us for machine in (0, 1)]
        for name, mode in MODES.items()
    }
    assert steps["layers swapped"][1] > 1.2 * steps["layers swapped"][0]
    assert steps["full recompute"][1] == steps["full recompute"][0]


@pytest.mark.parametrize("name", MODES)
def test_what_is_waited_for_is_what_the_timeline_says(name: str) -> None:
    config = strategy(MODES[name])
    answer = Question(NONE, replace(study(), config=config), machine=machines()[1]).answer()
    assert answer.times is not None
    timeline = answer.times.step.timeline
    found = evaluator().waits(config, [name], 1)
    assert list(found.stall_us) == pytest.approx([float(timeline.exposed_us.sum())])
    assert found.bubble_us == (0.0,)


def test_what_is_known_by_its_keys_is_not_asked_again_whatever_the_machine() -> None:
    fresh = Evaluator([NONE], study(), machines())
    whole, half = strategy(MODES["operators"]), strategy(MODES["operators"], only_first=True)
    first = fresh.evaluate(whole, ["whole"])
    assert fresh.calls == 1
    assert fresh.evaluate(whole, ["whole"]) == first
    fresh.evaluate(whole, ["whole"], 1)
    fresh.with_fragments_bytes(whole, ["whole"])
    assert fresh.calls == 1
    assert fresh.evaluate(half, ["half"]).ranks != first.ranks
    assert fresh.calls == 2
    assert fresh.evaluate(whole) == first
    assert fresh.calls == 3


def test_an_answer_that_is_no_longer_kept_whole_is_given_again() -> None:
    fresh = Evaluator([NONE], study(), machines())
    first = fresh.evaluate(strategy(MODES["operators"]), ["first"])
    for turn in range(70):
        fresh.evaluate(strategy(frozenset({Atom("swap", "attention", turn + 1)})), [turn])
    assert fresh.calls == 71
    assert fresh.evaluate(strategy(MODES["operators"]), ["first"]) == first
    assert fresh.with_fragments_bytes(strategy(MODES["operators"]), ["first"]) == fresh.with_fragments_bytes(
        strategy(MODES["operators"]), ["again"]
    )


def test_strategies_that_ask_the_same_are_one_question() -> None:
    """Nothing moves in a layer that is recomputed as a whole."""
    fresh, plain = Evaluator([NONE], study(), machines()), strategy(RECOMPUTED)
    other = strategy(RECOMPUTED | {Atom("swap", "attention", 10)})
    assert fresh.evaluate(plain, ["plain"]).ranks == fresh.evaluate(other, ["other"]).ranks
    assert fresh.calls == 2  # swap is off in one of them, and on in the other
    nearer = strategy(RECOMPUTED | {Atom("swap", "attention", 5)})
    assert fresh.evaluate(nearer, ["nearer"]) == fresh.evaluate(other, ["other"])
    assert fresh.with_fragments_bytes(nearer, ["nearer"]) == fresh.with_fragments_bytes(other, ["other"])
    assert fresh.calls == 2


def test_what_is_named_in_a_recomputed_cell_is_another_question() -> None:
    """MindSpore looks at the names of some primitives, whatever cell around them runs again."""
    network = study().network
    assert network is not None
    name = next(one.path for one in network.layers[0].template.primitives if one.path.startswith("feed_forward."))
    cell = frozenset({Atom("recompute", "feed_forward")})
    plans = [
        {entry.plan for entry in evaluator().strategy(strategy(mode)).layers}
        for mode in (cell, cell | {Atom("recompute", name)})
    ]
    [[plain], [named]] = map(list, plans)
    assert plain.actions() == named.actions()
    assert plain.recomputed != named.recomputed
    assert plain.meaning != named.meaning


def test_strategies_that_swap_otherwise_are_another_question() -> None:
    fresh = Evaluator([NONE], study(), machines())
    found = [fresh.evaluate(strategy(frozenset({Atom("swap", "", far)})), [far], 1).step_us for far in (1, 50)]
    assert fresh.calls == 2
    assert found[0] > found[1]


def test_the_order_is_told_of_those_that_it_was_asked_of(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Evaluator([NONE], study(), machines())
    mine, other = (strategy(RECOMPUTED | {Atom("swap", "attention", far)}) for far in (5, 10))
    before = fresh.with_fragments_bytes(other, ["other"])
    [rank] = fresh._ranks
    asked = list[int]()

    def in_order(meaning: int, *_: object) -> None:
        asked.append(meaning)
        rank.orders[meaning] = Ordered(memory=rank.memory[meaning], mapped_bytes=before[0] + 1)

    monkeypatch.setattr(rank, "order", in_order)
    assert fresh.evaluate(mine, ["mine"]) == fresh.evaluate(other, ["other"])
    fresh.order(mine, ["mine"])
    assert fresh.with_fragments_bytes(mine, ["mine"]) == (before[0] + 1,)
    assert fresh.with_fragments_bytes(other, ["other"]) == before
    fresh.order(other, ["other"])
    assert fresh.with_fragments_bytes(other, ["other"]) == (before[0] + 1,)
    assert len(asked) == 1


def test_what_runs_again_is_worked_out_once_for_all_that_move_other_things(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = [frozenset({Atom("recompute", "feed_forward"), Atom("swap", "attention", far)}) for far in (1, 10, 30)]
    modes += [frozenset({Atom("recompute", "feed_forward"), Atom("swap", "attention_norm", 10)})]
    apart = [Evaluator([NONE], study(), machines()).evaluate(strategy(mode)) for mode in modes]
    made, whole = rerun._runs_again, list[object]()

    def counted(prepared: PlacedBaseline, asked: Strategy, owns: Sequence[Own]) -> rerun.Rerun:
        whole.append(asked)
        return made(prepared, asked, owns)

    monkeypatch.setattr(rerun, "_runs_again", counted)
    fresh = Evaluator([NONE], study(), machines())
    assert [fresh.evaluate(strategy(mode)) for mode in modes] == apart
    assert len(whole) == 1
    fresh.evaluate(strategy(frozenset({Atom("recompute", "attention"), Atom("swap", "attention_norm", 10)})))
    assert len(whole) == 2


@pytest.mark.parametrize("name", MODES)
def test_the_step_is_that_of_a_comparison_of_the_same_baseline(name: str) -> None:
    """`compare --predict` puts ranks on one clock by the general replay."""
    config = strategy(MODES[name])
    ranks = folders.read(NONE)
    variant = of_baseline(
        name, ranks, replace(study(), config=config, strategy=evaluator().strategy(config)), machines()[0]
    )
    assert variant.timeline is not None
    assert evaluator().evaluate(config).step_us == pytest.approx(variant.timeline.step_us, rel=1e-12)


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        shutil.copytree(NONE, tmp_path / f"rank_{number}")
        (tmp_path / f"rank_{number}" / "run.json").write_text('{"report": {"rank": 0, "stage": 0}}')
    with pytest.raises(ValueError, match="two of the traces are of the same rank"):
        Evaluator([tmp_path / "rank_0", tmp_path / "rank_1"], study(), machines())


@pytest.mark.parametrize(("accumulation", "kinds"), [(1, 2), (2, 1)])
def test_with_swap_the_order_is_that_of_a_run_with_swap_on_where_that_decides_it(
    accumulation: int, kinds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path / "rank_0", tmp_path / SWAP_ON / "rank_0"):
        shutil.copytree(NONE, folder)
    changes = "model.model_config.num_layers=2", f"runner_config.gradient_accumulation_steps={accumulation}"
    made = study_of(TRACES / "llama.yaml", *changes)
    of, asked = GraphedBaseline.of, list[PlacedBaseline]()

    def remembering(prepared: PlacedBaseline, graph: LaunchGraph | None) -> GraphedBaseline:
        asked.append(prepared)
        return of(prepared, graph)

    monkeypatch.setattr(GraphedBaseline, "of", remembering)
    fresh = Evaluator([tmp_path / "rank_0"], made, machines())
    for name in ("full recompute", "layers swapped"):
        fresh.order(strategy(MODES[name]), [name])
    assert len(set(map(id, asked))) == kinds


def _with_more(folder: Path, more_bytes: int) -> None:
    """The first block of the trace there is larger, which is never released."""
    trace = trace_folder.read(folder, 0)
    first = int(np.flatnonzero(trace.blocks.is_persistent)[0])
    behind = (np.arange(len(trace.blocks)) >= first) & ~trace.blocks.on_host
    sizes = trace.blocks.size_bytes + more_bytes * (np.arange(len(trace.blocks)) == first)
    blocks = replace(trace.blocks, size_bytes=sizes, used_bytes=trace.blocks.used_bytes + more_bytes * behind)
    grown_trace_writer.write(replace(trace, blocks=blocks), folder)


def test_without_a_graph_too_the_memory_of_a_swap_is_told_by_the_run_with_swap_on(tmp_path: Path) -> None:
    """As of a model that no run had as a whole, whose trace was grown."""
    more = 64 << 20
    for folder in (tmp_path / "rank_0", tmp_path / SWAP_ON / "rank_0"):
        shutil.copytree(NONE, folder)
    _with_more(tmp_path / SWAP_ON / "rank_0", more)
    changes = "model.model_config.num_layers=2", "runner_config.gradient_accumulation_steps=1"
    fresh = Evaluator([tmp_path / "rank_0"], study_of(TRACES / "llama.yaml", *changes), machines())

    def needed(name: str) -> tuple[int, int]:
        config = strategy(MODES[name])
        (rank,) = fresh.evaluate(config, [name]).ranks
        return rank.used_peak_bytes, fresh.with_fragments_bytes(config, [name])[0]

    added = {}
    for name in ("full recompute", "layers swapped"):
        before = needed(name)
        fresh.order(strategy(MODES[name]), [name])
        added[name] = [now - was for now, was in zip(needed(name), before, strict=True)]
    assert added["full recompute"] == [0, 0]
    assert added["layers swapped"][0] == more
    assert added["layers swapped"][1] > 0


def test_what_mindspore_is_known_not_to_compile_crashes() -> None:
    """Two Linears behind the Reshape that the model itself runs again; one such compiles."""
    qwen3 = study_of(ROOT / "configs" / "small" / "qwen3_default_swap.yaml")
    fresh = Evaluator([unpacked(TRACES / "mcore" / "qwen3_l2_none")], qwen3, machines())
    again = frozenset({Atom("recompute", "mlp.linear_fc2")})
    plans: dict[bool, Sequence[Mode]] = {True: (again, again), False: (again, frozenset())}
    swapping = frozenset({Atom("swap", "self_attention.core_attention", 5)})
    found = {
        stops: fresh.evaluate(config_of(tuple(mode | swapping for mode in plan), qwen3.config)).crashes
        for stops, plan in plans.items()
    }
    assert found == {True: True, False: False}
