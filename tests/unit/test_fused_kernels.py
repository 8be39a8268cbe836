"""Fused kernels (jit_level O1) are opened into the operators that MindSpore made them of.

The two traces are true dry runs of MindSpore 2.9.0, as `swapconf dryrun --keep` leaves them.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from swapconf.dryrun.effect import compare_recompute
from swapconf.dryrun.effect.effect import observed
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.trace import fused_kernels
from swapconf.trace.columns import FUSED
from swapconf.trace.func_graph_text import Argument, Kind
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.phases import Phase, readers_of
from swapconf.trace.tensor import Tensor
from swapconf.trace.trace import PART, Task, Trace
from swapconf.words.findings import Origin, SwapconfError
from tests.helpers import TRACES, golden, packed, study_of

FOLDER = TRACES / "fused"
PLAIN, AGAIN = "llama_plain", "qwen3_moe_recompute"
NAMES = (PLAIN, AGAIN)
BIG = Tensor("Float32", (8, 4))


@cache
def trace_of(name: str) -> Trace:
    return packed(FOLDER / name)


def closed(trace: Trace) -> Trace:
    """The same, as older runs were kept."""
    return replace(trace, fused_kernels_file="")


def fused_launches(trace: Trace) -> list[Task]:
    return [task for task in trace.tasks if FUSED in task.name]


@pytest.mark.parametrize(("name", "launches"), [(PLAIN, 1062), (AGAIN, 1274)])
def test_every_fused_kernel_opens_exactly(name: str, launches: int) -> None:
    trace = trace_of(name)
    assert len(fused_launches(trace)) == launches
    assert {task.event for task in fused_launches(trace)} == trace.opened.parts.keys()
    for task in fused_launches(trace):
        kernel = trace.fused_kernels[task.name]
        given = {item for operator in kernel.operators for item in operator.given}
        assert tuple(kernel.operators[output].made for output in kernel.outputs) == task.output_tensors
        assert given == set(range(len(task.inputs)))


@pytest.mark.parametrize("name", NAMES)
def test_opened_it_is_the_same_run_in_operators(name: str) -> None:
    trace, inside = trace_of(name), trace_of(name).opened.trace
    assert inside.has_graph
    assert len({(kernel.graph, kernel.name) for kernel in inside.step}) == len(inside.step)
    assert len(inside.step_tasks) > len(trace.step_tasks)
    assert (inside.num_steps, inside.used_peak_bytes, inside.host_peak_bytes) == (
        trace.num_steps,
        trace.used_peak_bytes,
        trace.host_peak_bytes,
    )
    known = {block.start for block in inside.blocks}
    assert known.issuperset(tensor for task in inside.tasks for tensor in (*task.inputs, *task.outputs))
    events = {task.event for task in inside.tasks}
    assert events.issuperset(user for block in inside.blocks for user in block.users)


def test_an_operator_reads_in_its_own_order() -> None:
    """Else the product of a cast inside of the kernel and of a cosine from outside was another one than that of the
    forward pass, whose cast is no part of its kernel, and was not recomputed (TeleChat3-MoE, whole layers)."""
    trace = packed(TRACES / "fused_in_order" / "qwen3")
    inside = {task.event: task for task in trace.opened.trace.tasks}
    crossed = 0
    for task in fused_launches(trace):
        if not set(task.inputs).isdisjoint(task.outputs):
            continue  # what is written in place is inside of the kernel, and outside
        given = {tensor * trace.opened.scale for tensor in task.inputs}
        operators = trace.fused_kernels[task.name].operators
        for event, operator in zip(trace.opened.parts[task.event], operators, strict=True):
            read = [argument.kind is Kind.PARAMETER for argument in operator.tensors]
            assert [tensor in given for tensor in inside[event].inputs] == read
            crossed += read[:2] == [False, True]
    assert crossed


def test_each_operator_of_a_recomputed_layer_is_known() -> None:
    """Without what is inside, it was 50 and 50, and none of these three."""
    found = observed(trace_of(AGAIN), 3)
    assert found.recomputed_by_layer == {"2": 72, "0": 72, "1": 2}
    kinds = {(launch.place.cell, launch.primitive) for launch in found.recomputed or () if launch.place.layer == "0"}
    rotary = "self_attention.apply_rotary_pos_emb"
    assert {(rotary, "Mul"), (rotary, "AddExt"), ("", "AddExt")} <= kinds
    older = observed(closed(trace_of(AGAIN)), 3).recomputed_by_layer
    assert older["0"] < 72


@pytest.mark.parametrize("name", NAMES)
def test_a_decision_is_compared_with_the_operators(name: str) -> None:
    study = study_of(FOLDER / name / "model.yaml")
    assert study.strategy is not None
    found = observed(trace_of(name), len(study.strategy.network.layers))
    assert compare_recompute.compare(study.strategy, found, Origin(file="")) == ()


def test_a_fused_kernel_is_recomputed_if_its_operators_are() -> None:
    trace = trace_of(AGAIN)
    phases = dict(zip((task.name for task in trace.step_tasks), trace.step_phases, strict=True))
    fused = [name for name, phase in phases.items() if FUSED in name and phase is Phase.RECOMPUTED]
    assert len(fused) > 20


def test_what_an_operator_hands_on_inside_the_kernel_that_also_leaves_it_has_a_reader_there() -> None:
    """So the output of a recomputed layer, which the first norm behind it reads in the same kernel, is known as one."""
    trace = trace_of(AGAIN).opened.trace
    readers = readers_of(trace)
    users = {block.start: set(block.users) for block in trace.blocks}
    found = 0
    for task in trace.step_tasks:
        for tensor in task.inputs if (PART, "") in task.attributes else ():
            assert task.event in readers[tensor]
            found += task.event not in users.get(tensor, set())
    assert found


def test_what_a_fused_kernel_leaves_belongs_to_the_layer_of_its_operator() -> None:
    trace = trace_of(AGAIN)
    with_operators, without = lifetimes(trace), lifetimes(closed(trace))
    assert (with_operators.layer >= 0).sum() > (without.layer >= 0).sum()
    assert (with_operators.category == without.category).mean() > 0.9
    assert with_operators.size_bytes.sum() == without.size_bytes.sum()


def test_older_traces_are_read_as_before() -> None:
    trace = packed(FOLDER / "llama")
    assert trace.fused_kernels == {}
    assert trace.opened.trace is trace
    plain = golden("llama_l2_none")
    assert plain.opened.trace is plain


def test_a_kernel_that_makes_something_else_stays_closed(tmp_path: Path) -> None:
    trace = trace_of(AGAIN)
    name = next(task.name for task in trace.tasks if FUSED in task.name)
    kernel = trace.fused_kernels[name]
    wrong = replace(kernel, outputs=kernel.outputs[:-1])
    fused_kernels.write({**trace.fused_kernels, name: wrong}, tmp_path / "kernels")
    found = replace(trace, fused_kernels_file=str(tmp_path / "kernels")).opened
    assert name in {task.name for task in found.trace.tasks}
    assert len(found.parts) == len(trace.opened.parts) - trace.num_steps


def kernel() -> FusedKernel:
    given, constant = Argument(Kind.PARAMETER, 0), Argument(Kind.CONSTANT, text="I64(1)")
    neg = FusedOperator(
        name="a-A/Neg-op0", primitive="Neg", arguments=(given, constant), made=BIG, is_copy=True, unique="7"
    )
    add = FusedOperator(
        name="Default/Add-op1",
        primitive="Add",
        arguments=(Argument(Kind.NODE, 0),) * 2,
        made=None,
        is_copy=False,
        forward_unique="8",
    )
    return FusedKernel(operators=(neg, add), outputs=(1,))


def test_the_file_gives_back_what_was_written_in_the_same_bytes(tmp_path: Path) -> None:
    given = {"Default/GraphKernel_A-op0": kernel(), "Default/GraphKernel_A-op1": kernel()}
    fused_kernels.write(given, tmp_path / "one")
    assert fused_kernels.read(tmp_path / "one") == given
    fused_kernels.write(fused_kernels.read(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_more_than_is_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_kernels, "MAX_DOCUMENT_BYTES", 20)
    with pytest.raises(ValueError, match="too many"):
        fused_kernels.write({"a": kernel()}, tmp_path / "one")
    assert not list(tmp_path.iterdir())


GOOD: dict[str, object] = {
    "form": 2,
    "kernels": {"a": 0},
    "sets": [[[[0, 0, [[1, 0], [2, 0]], [0, [8]], 1, 0, 0], [0, 0, [[0, 0]], None, 0, 0, 0]], [1]]],
    "texts": ["b"],
}
WRONG: tuple[dict[str, object], ...] = (
    {"form": 0},
    {"kernels": {"a": 1}},
    {"kernels": {"a": True}},
    {"kernels": 7},
    {"texts": [7]},
    {"sets": [[[[1, 0, [], None, 0, 0, 0]], []]]},
    {"sets": [[[[0, 0, [[0, 0]], None, 0, 0, 0]], []]]},
    {"sets": [[[[0, 0, [[1, -1]], None, 0, 0, 0]], []]]},
    {"sets": [[[[0, 0, [[2, 1]], None, 0, 0, 0]], []]]},
    {"sets": [[[[0, 0, [[3, 0]], None, 0, 0, 0]], []]]},
    {"sets": [[[[0, 0, [], [0, ["8"]], 0, 0, 0]], []]]},
    {"sets": [[[[0, 0, [], None, 2, 0, 0]], []]]},
    {"sets": [[[[0, 0, [], None, 0, 1, 0]], []]]},
    {"sets": [[[[0, 0, [], None, 0, 0, 0]], [1]]]},
    {"sets": [[[], 7]]},
)


@pytest.mark.parametrize("change", WRONG)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "kernels"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert len(fused_kernels.read(path)["a"].operators) == 2
    path.write_bytes(gzip.compress(json.dumps({**GOOD, **change}).encode()))
    with pytest.raises(SwapconfError) as caught:
        fused_kernels.read(path)
    assert caught.value.findings[0].rule == "trace-garbled"


def test_a_file_that_is_cut_or_missing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kernels"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-9])
    for where, rule in ((path, "trace-garbled"), (tmp_path / "none", "file-not-found")):
        with pytest.raises(SwapconfError) as caught:
            fused_kernels.read(where)
        assert caught.value.findings[0].rule == rule
