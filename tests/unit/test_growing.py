"""A trace of the whole model from traces of fewer layers: the same as if the whole model had been run."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.settled import arranged, settled
from swapconf.dryrun.growing.whole import Run, renumbered, whole
from swapconf.trace import grown_trace_writer, trace_folder
from swapconf.trace.func_graph_text import Argument, Kind
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.trace import Trace
from swapconf.trace.waits import waits_of
from tests.unit.toy_steps import NET, Runtime, recorded, toy

OWN = 12


def kept(size: int, first: int = 0) -> list[int]:
    """Of ``first`` layers in other stages, of which one stays, and OWN in the rank's."""
    front = -(-size // 2)
    own = [*range(front), *range(OWN - (size - front), OWN)]
    return [*range(min(first, 1)), *(first + layer for layer in own)]


def run(size: int, first: int = 0, **shape: Any) -> Run:
    return Run(trace=toy(size, first=min(first, 1), **shape), kept=kept(size, first), first=first, size=size)


def grown(small: int = 4, big: int = 6, first: int = 0) -> Trace:
    return whole(run(small, first), run(big, first), range(first + OWN), OWN)


def launches(trace: Trace) -> list[tuple[str, int, str]]:
    """Names without the numbers that MindSpore counts within a graph."""
    return [(re.sub(r"-op\d+$", "", kernel.name), kernel.stream, kernel.primitive) for kernel in trace.kernels]


def lives(trace: Trace) -> list[tuple[Any, ...]]:
    """Of each block made in the steps: its size, and by launch its birth, its readers and its release."""
    events = [task.event for task in trace.tasks if task.name.partition("-op")[0] != task.name]
    return [
        (
            block.size_bytes,
            bisect_left(events, block.start),
            [bisect_left(events, user) for user in block.users],
            block.end and bisect_left(events, block.end),
            re.sub(r"-op\d+$", "", block.node),
        )
        for block in trace.blocks
        if block.kind == "Kernel"
    ]


@pytest.mark.parametrize(("small", "big"), [(4, 6), (6, 8)])
def test_the_grown_trace_launches_what_the_whole_model_launches_in_the_same_order(small: int, big: int) -> None:
    assert launches(grown(small, big)) == launches(settled(toy(OWN)))


@pytest.mark.parametrize(("small", "big"), [(4, 6), (6, 8)])
def test_every_tensor_lives_as_long_as_in_the_whole_model_and_has_the_same_readers(small: int, big: int) -> None:
    assert lives(grown(small, big)) == lives(settled(toy(OWN)))


@pytest.mark.parametrize(("micro_batches", "steps"), [(1, 1), (3, 1), (1, 3)])
def test_any_number_of_micro_batches_and_steps_is_grown(micro_batches: int, steps: int) -> None:
    small, big = (run(size, micro_batches=micro_batches, steps=steps) for size in (4, 6))
    assert lives(whole(small, big, range(OWN), OWN)) == lives(settled(toy(OWN, micro_batches, steps)))


def test_a_last_layer_that_does_one_thing_more_counts_as_far_as_it_is_like_the_others() -> None:
    found = whole(run(4, uneven=True), run(6, uneven=True), range(OWN), OWN)
    assert lives(found) == lives(settled(toy(OWN, uneven=True)))


def test_what_a_stage_receives_first_of_all_is_of_the_step_although_it_is_born_before_it() -> None:
    found = whole(run(4, receives=True), run(6, receives=True), range(OWN), OWN)
    assert lives(found) == lives(settled(toy(OWN, receives=True)))
    assert found.used_peak_bytes == toy(OWN, receives=True).used_peak_bytes


def test_runs_whose_last_layers_launch_in_another_order_are_grown_like_the_larger_one() -> None:
    found = whole(run(4, branch="norm"), run(6, branch="add"), range(OWN), OWN)
    assert launches(found) == launches(settled(toy(OWN, branch="add")))
    assert lives(found) == lives(settled(toy(OWN, branch="add")))


def test_the_used_peak_is_that_of_the_whole_model_to_the_byte() -> None:
    assert grown().used_peak_bytes == toy(OWN).used_peak_bytes > toy(6).used_peak_bytes


def test_parameters_and_optimizer_state_are_those_of_the_whole_model() -> None:
    def parameters(trace: Trace) -> dict[str, int]:
        return {block.node: len(block.users) for block in trace.blocks if block.kind == "Weight"}

    assert parameters(grown()) == parameters(toy(OWN))


def test_streams_wait_for_each_other_as_in_the_whole_model() -> None:
    assert waits_of(grown())[1] == waits_of(settled(toy(OWN)))[1]


def test_every_launch_of_a_step_has_a_name_of_its_own() -> None:
    trace = grown()
    assert max(Counter(kernel.name for kernel in trace.step).values()) == 1
    assert trace.num_steps == 2
    assert trace.has_graph


def test_a_sum_over_all_layers_reads_one_of_each() -> None:
    (sums,) = {len(task.inputs) for task in grown().tasks if task.primitive == "AddN"}
    assert sums == OWN


def test_layers_of_a_later_stage_bear_their_numbers_in_the_whole_model() -> None:
    assert launches(grown(first=7)) == launches(settled(toy(OWN, first=7)))


def test_nodes_are_named_after_what_makes_them() -> None:
    trace = grown()
    maker = {kernel.output: index for index, kernel in enumerate(trace.step)}
    truth = settled(toy(OWN))
    wanted = {kernel.output: index for index, kernel in enumerate(truth.step)}
    assert [[maker[name] for name in kernel.inputs] for kernel in trace.step] == [
        [wanted[name] for name in kernel.inputs] for kernel in truth.step
    ]


def test_a_run_of_all_own_layers_only_gets_their_numbers_in_the_whole_model() -> None:
    alone = Run(trace=toy(5, first=1), kept=[0, *range(7, 12)], first=7, size=5)
    trace = renumbered(alone, range(12))
    assert launches(trace) == launches(toy(5, first=7))
    assert lives(trace) == lives(toy(5, first=7))


def with_inside(found: Run) -> Run:
    """The same, of whose norms is known that each has an operator of its own layer, and one of the layer before."""
    of_norms = {kernel.name for kernel in found.trace.step if kernel.primitive == "RmsNorm"}
    inside = {name: _inside(name, min(found.first, 1)) for name in of_norms}
    return replace(found, trace=replace(found.trace, known_inside=inside))


def _inside(name: str, first: int) -> FusedKernel:
    """``first``: layer of the stage."""
    scope = name.rpartition("/")[0]
    before = re.sub(r"/(\d+)-", lambda found: f"/{max(int(found[1]) - 1, first)}-", scope)
    given = (Argument(Kind.PARAMETER, 0),)
    operators = [
        FusedOperator(name=f"{scope}/Cast-op{number}", primitive="Cast", arguments=given, made=None, is_copy=False)
        for number, scope in enumerate((before, scope, "Default"))
    ]
    return FusedKernel(operators=tuple(operators), outputs=(1,))


@pytest.mark.parametrize("first", [0, 7])
def test_the_operators_inside_fused_kernels_are_those_of_the_layers_of_the_whole_model(first: int) -> None:
    small, big = (with_inside(run(size, first)) for size in (4, 6))
    found = whole(small, big, range(first + OWN), OWN)
    by_name = {re.sub(r"-op\d+$", "", name): kernel for name, kernel in found.fused_kernels.items()}
    assert len(found.fused_kernels) == len([one for one in found.step if one.primitive == "RmsNorm"]) == 2 * OWN
    truth = toy(OWN, first=first)
    assert {re.sub(r"-op\d+$", "", one.name) for one in truth.step if one.primitive == "RmsNorm"} == by_name.keys()
    for name, kernel in by_name.items():
        assert [one.name for one in kernel.operators] == [one.name for one in _inside(name + "-op0", first).operators]


def test_what_is_inside_fused_kernels_is_kept_with_a_grown_trace(tmp_path: Path) -> None:
    small, big = (with_inside(run(size)) for size in (4, 6))
    found = whole(small, big, range(OWN), OWN)
    grown_trace_writer.write(found, tmp_path)
    assert trace_folder.read(tmp_path, 0).fused_kernels == found.fused_kernels
    grown_trace_writer.write(grown(), tmp_path)
    assert trace_folder.read(tmp_path, 0).fused_kernels == {}


def test_a_trace_is_not_grown_where_the_runs_differ_in_more_than_layers() -> None:
    with pytest.raises(CannotGrow, match="repeated"):
        whole(run(4), run(6, micro_batches=3), range(OWN), OWN)


def test_a_trace_is_not_grown_where_the_grown_run_has_another_peak_than_the_larger_one() -> None:
    larger = run(6)
    sizes = larger.trace.blocks.size_bytes.copy()
    sizes[-1] += 512
    wrong = replace(larger, trace=replace(larger.trace, blocks=replace(larger.trace.blocks, size_bytes=sizes)))
    with pytest.raises(CannotGrow, match="used peak"):
        whole(run(4), wrong, range(OWN), OWN)


def test_layers_that_are_no_whole_number_of_periods_are_refused() -> None:
    with pytest.raises(CannotGrow, match="no whole number of periods"):
        whole(run(4), run(6), range(OWN + 1), OWN + 1)


def test_copies_of_parameters_that_stand_in_any_order_come_in_that_of_the_layers() -> None:
    trace = toy(6)
    found = settled(trace)
    weight = {block.start: block.node for block in found.blocks}
    moves = [weight[task.inputs[0]] for task in found.step_tasks if task.primitive == "TensorMove"]
    assert moves == [f"model.layers.{layer}.w" for layer in range(6)]
    assert sorted(life[2:] for life in lives(found)) == sorted(life[2:] for life in lives(trace))
    assert found.used_peak_bytes == trace.used_peak_bytes


def sums(order: list[int]) -> Trace:
    """Each of three tensors is read by one launch, in this order, and the sums by the last one."""
    runtime = Runtime(steps=2)
    for number in range(3):
        runtime.launch(f"{NET}/Mul", ["model.table"], f"a.{number}", (8, 3 + number))
    for number in order:
        runtime.launch(f"{NET}/{number}-Layer/AddN", [f"a.{number}"], f"s.{number}", (8, 5 + number))
    runtime.launch(f"{NET}/Log", ["s.0", "s.1", "s.2"], "loss", (5, 5))
    return recorded(runtime, ["model.table"])


@pytest.mark.parametrize("order", [[2, 0, 1], [2, 1, 0], [0, 2, 1]])
def test_launches_of_one_kind_that_need_nothing_of_each_other_come_in_the_order_of_the_graph(order: list[int]) -> None:
    truth = sums(order)
    found = arranged(sums([0, 1, 2]), [kernel.name for kernel in truth.step])
    assert launches(found) == launches(truth)
    assert lives(found) == lives(truth)
    assert found.blocks.used_bytes.tolist() == truth.blocks.used_bytes.tolist()


def test_launches_that_read_each_other_stay_where_they_are() -> None:
    runtime = Runtime(steps=1)
    for number in range(3):
        runtime.launch(f"{NET}/Mul", [f"a.{number - 1}"] if number else ["model.table"], f"a.{number}")
    trace = recorded(runtime, ["model.table"])
    assert arranged(trace, [kernel.name for kernel in reversed(trace.step)]) is trace


def test_a_grown_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    trace = grown()
    grown_trace_writer.write(trace, tmp_path)
    read = trace_folder.read(tmp_path, 0)
    assert (read.kernels, read.tasks) == (trace.kernels, trace.tasks)
    assert [*read.blocks] == [*trace.blocks]
    grown_trace_writer.remove(tmp_path)
    assert not any(tmp_path.iterdir())
