"""Fused kernels (jit_level O1) are asked as the operators that they are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.timing import hardware
from swapconf.timing.costing import costs, workload
from swapconf.trace import fused_kernels
from swapconf.trace.trace import Kernel, Task, Tensor, Trace
from swapconf.whatif.baseline_step import step_of, table
from swapconf.whatif.bound import order_bytes, safe_peak_bytes
from swapconf.whatif.one_step import one_step
from swapconf.whatif.placed import placed
from swapconf.whatif.predict import predict
from swapconf.whatif.prepare import prepare
from swapconf.whatif.question import Question
from swapconf.whatif.unfused import unfused
from tests.helpers import TRACES, golden, packed, strategy_of, study_of

FILE = TRACES / "llama.yaml"
OUT, TWICE = Tensor("BFloat16", (8, 4)), Tensor("Float32", (8, 4))


def fused(trace: Trace, primitives: frozenset[str]) -> Trace:
    """The same run, as if these kernels had gone through graph-kernel fusion: without scope, and called after it."""
    names: dict[str, str] = {}
    for kernel in trace.kernels:
        if kernel.primitive in primitives and kernel.name not in names:
            names[kernel.name] = f"Default/GraphKernel_{kernel.primitive}-op{len(names)}"
    return replace(
        trace,
        kernels=tuple(replace(kernel, name=names.get(kernel.name, kernel.name)) for kernel in trace.kernels),
        tasks=tuple(replace(task, name=names.get(task.name, task.name)) for task in trace.tasks),
    )


def made(outputs: tuple[Tensor, ...], name: str = "Default/GraphKernel_Mul_Add_Cast_fusion-op3") -> Trace:
    """One fused kernel that reads tensor 1 and makes 2, 3, ..."""
    kernel = Kernel(index=0, name=name, stream=0, graph="g", primitive="GraphKernel", output="o", inputs=("i",))
    task = Task(
        event=7,
        name=name,
        inputs=(1,),
        outputs=tuple(range(2, 2 + len(outputs))),
        attributes=(),
        input_tensors=(OUT,),
        output_tensors=outputs,
    )
    return Trace(folder="", rank=0, blocks=golden("llama_l2_none").blocks, kernels=(kernel,), tasks=(task,))


def parts(trace: Trace) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    return [(task.primitive, task.inputs, task.outputs) for task in trace.tasks]


def test_one_output_is_made_by_the_last_operator() -> None:
    found = unfused(made((OUT,)))
    assert parts(found) == [("Cast", (1,), (2,))]
    assert [kernel.primitive for kernel in found.kernels] == ["Cast"]


def test_of_two_outputs_of_one_shape_the_second_is_made_of_the_first() -> None:
    assert parts(unfused(made((OUT, TWICE)))) == [("Add", (1,), (2,)), ("Cast", (2,), (3,))]


def test_outputs_of_different_shapes_are_made_of_what_went_in() -> None:
    assert parts(unfused(made((OUT, Tensor("Float32", (8,)))))) == [("Add", (1,), (2,)), ("Cast", (1,), (3,))]


def test_more_outputs_than_operators() -> None:
    found = unfused(made((OUT, OUT, OUT), "Default/GraphKernel_Cast_Cast_split-op0"))
    assert [(kind, written) for kind, _, written in parts(found)] == [("Cast", (2,)), ("Cast", (3,)), ("Cast", (4,))]
    assert len({kernel.name for kernel in found.kernels}) == 3


def test_without_fused_kernels_nothing_changes() -> None:
    trace = golden("llama_l2_none")
    assert unfused(trace) is trace


@pytest.mark.parametrize(
    "changes",
    [
        ("recompute_config.recompute=True", "swap_config.swap=False"),
        ("swap_config.layer_swap=[{backward_prefetch: 5, layers: True}]",),
        ("swap_config.layer_swap=[{backward_prefetch: 1, layers: [0]}]", "recompute_config.recompute=[1]"),
    ],
)
def test_what_has_lost_its_scope_is_found_again(changes: tuple[str, ...]) -> None:
    """As in a run with jit_level O1, where SiLU, its gradient and the product behind it bear no cell."""
    network = study_of(FILE).network
    assert network is not None
    trace, strategy = golden("llama_l2_none"), strategy_of(FILE, *changes)
    lost = fused(trace, frozenset({"SiLU", "SiLUGrad", "Mul"}))
    assert lost.kernels != trace.kernels
    expected = predict(placed(prepare(trace), network), strategy)
    found = predict(placed(prepare(unfused(lost)), network), strategy)
    assert (found.used_peak_bytes, found.recomputed, len(found.moves)) == (
        expected.used_peak_bytes,
        expected.recomputed,
        len(expected.moves),
    )


def test_of_a_run_as_it_is_nothing_runs_again_that_did_not() -> None:
    """A legacy norm marks its first cast to run again, and MindSpore makes one kernel of that and of the next."""
    folder = TRACES / "fused" / "llama"
    trace, study = packed(folder), study_of(folder / "model.yaml")
    assert study.network is not None
    assert study.strategy is not None
    found = predict(placed(prepare(unfused(trace)), study.network), study.strategy)
    assert (found.recomputed, len(found.moves)) == (0, 0)
    assert found.used_peak_bytes == trace.used_peak_bytes


def test_what_stands_for_a_fused_kernel_takes_its_time_together() -> None:
    card = hardware.load("ascend_910b2")
    trace = golden("llama_l2_none")
    two = [task for task in trace.tasks if task.is_kernel and len(set(task.outputs) - set(task.inputs)) == 2]
    whole = fused(trace, frozenset(task.primitive for task in two))
    step = step_of(whole, prepare(unfused(whole)))
    assert len(step.program) > len(workload(whole).names)
    found = table(step, card).duration_us[: len(step.program)]
    assert np.isclose(found.sum(), costs(workload(whole), card).duration_us.sum())


def test_what_needs_other_ranks_is_counted_among_the_operators() -> None:
    """One stage of several, with fused kernels in front of what it sends."""
    trace = fused(packed(TRACES / "in_order" / "glm2_received"), frozenset({"RmsNorm", "AddRmsNorm"}))
    step = step_of(trace, prepare(unfused(trace)))
    names = [step.program.names[call.kernel] for call in step.calls(0) if call.sender >= 0]
    assert len(step.program) > len(trace.step_tasks)
    assert names
    assert all("Send-" in name or "Receive-" in name for name in names)


PLAIN = TRACES / "fused" / "llama_plain"


@pytest.mark.parametrize(
    ("changes", "peak_bytes", "moves"),
    [
        ('swap_config={"swap": true, "layer_swap": [{"backward_prefetch": 1, "layers": [1]}]}', 81_456_640, 50),
        ("recompute_config.recompute=[1]", 81_986_048, 0),
    ],
)
def test_where_the_inside_is_known_operators_are_asked(changes: str, peak_bytes: int, moves: int) -> None:
    """The peaks and copies of true runs with these strategies."""
    trace, study = packed(PLAIN), study_of(PLAIN / "model.yaml", changes)
    network, strategy = study.network, study.strategy
    assert network is not None
    assert strategy is not None
    found = predict(placed(prepare(unfused(trace)), network), strategy)
    assert abs(found.used_peak_bytes / peak_bytes - 1) < 1e-4
    assert len(found.moves) // found.steps == moves
    assert (found.device.size_bytes > 0).all()


def test_operators_of_one_launch_are_known_to_be_of_one() -> None:
    trace, study = packed(PLAIN), study_of(PLAIN / "model.yaml")
    assert study.network is not None
    baseline = prepare(unfused(trace))
    assert baseline.ends_launch.sum() == len([task for task in trace.tasks if task.is_kernel])
    assert len(baseline.kernels) > baseline.ends_launch.sum()
    assert (np.diff(baseline.launch) == baseline.ends_launch[:-1]).all()


def test_what_stands_inside_takes_no_memory_and_the_first_takes_the_time() -> None:
    trace, study = packed(PLAIN), study_of(PLAIN / "model.yaml")
    assert study.network is not None
    baseline = prepare(unfused(trace))
    assert baseline.blocks.used_peak_bytes == trace.used_peak_bytes
    card, step = hardware.load("ascend_910b2"), step_of(trace, baseline)
    found = table(step, card).duration_us[: len(step.program)]
    assert np.isclose(found.sum(), costs(workload(trace), card).duration_us.sum())


def test_a_user_is_told_what_a_prediction_with_fused_kernels_is_worth() -> None:
    folder, study = Path(packed(PLAIN).folder), study_of(PLAIN / "model.yaml")
    (known,) = (found for found in Question(folder, study).findings if found.rule == "kernels-fused")
    (folder / fused_kernels.FILE).unlink()
    (older,) = (found for found in Question(folder, study).findings if found.rule == "kernels-fused")
    assert "about the operators in them" in known.message
    assert "does not tell what is inside" in older.message


def test_the_safe_bound_is_wider_with_fused_kernels() -> None:
    trace, study = packed(PLAIN), study_of(PLAIN / "model.yaml", "recompute_config.recompute=[1]")
    network, strategy = study.network, study.strategy
    assert network is not None
    assert strategy is not None
    prepared = placed(prepare(unfused(trace)), network)
    baseline = prepared.baseline
    inside = (baseline.maker >= 0) & (baseline.kernels.layer[np.maximum(baseline.maker, 0)] >= 0)
    largest = np.sort(baseline.blocks.size_bytes[inside])[::-1]
    assert order_bytes(prepared) == largest[:4].sum()
    assert safe_peak_bytes(prepared, strategy) > 81_986_048 + largest[:2].sum()


def test_the_one_step_that_plans_are_judged_by_knows_what_is_launched_together() -> None:
    trace, study = packed(PLAIN), study_of(PLAIN / "model.yaml")
    assert study.network is not None
    baseline = prepare(unfused(trace))
    once = one_step(placed(baseline, study.network), step_of(trace, baseline))
    assert once is not None
    kept = once.prepared.baseline
    assert 2 * len(kept.joined) == len(baseline.joined)
    assert (kept.ends_launch == baseline.ends_launch[: len(kept.kernels)]).all()
