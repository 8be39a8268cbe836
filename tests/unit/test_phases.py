"""Which launches of a step are recomputed where gradients stand in no cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from swapconf.dryrun.effect.effect import observed
from swapconf.trace.phases import Phase, _known, _made, _phases, _turning, _without_a_name, of_layers
from swapconf.trace.trace import Task, Tensor, Trace
from swapconf.upstream.scopes import GRADIENTS, in_layer
from tests.helpers import TRACES, packed

# mindformers' TeleChat2 35b as it is published, with ``fine_grain_interleave: 2`` and full recompute, but small: the
# first of two stages of one layer, which computes two micro-batches before it awaits a gradient; ``model.yaml`` is O1
FOLDER = TRACES / "in_halves"
LEVELS = ("o0", "o1")  # jit_level
LAYER = "Default/network-N/model-M/layers-CellList/0-L/mlp-F"


def halves(level: str) -> Trace:
    return packed(FOLDER / f"telechat2_{level}")


def in_layers(trace: Trace) -> Iterator[tuple[Task, Phase, bool]]:
    """What is no gradient by name, and whether a gradient ran before it."""
    behind = False
    for task, phase in zip(trace.step_tasks, trace.step_phases, strict=True):
        behind = behind or task.name.startswith(GRADIENTS)
        if in_layer(task.scope) is not None and not task.name.startswith(GRADIENTS):
            yield task, phase, behind


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_layer_computes_behind_the_first_gradient_is_recomputed(level: str) -> None:
    """Both micro-batches have gone forward by then, so that nothing else is left for it to compute."""
    found = {(behind, phase) for _, phase, behind in in_layers(halves(level))}
    assert found == {(False, Phase.FORWARD), (True, Phase.RECOMPUTED)}


@pytest.mark.parametrize("level", LEVELS)
def test_flash_attention_of_each_micro_batch_runs_again(level: str) -> None:
    found = Counter(phase for task, phase, _ in in_layers(halves(level)) if task.primitive == "FlashAttentionScore")
    assert found == {Phase.FORWARD: 2, Phase.RECOMPUTED: 2}


@pytest.mark.parametrize(("level", "count"), [("o0", 110), ("o1", 64)])
def test_a_dry_run_tells_what_the_layer_recomputes(level: str, count: int) -> None:
    """But for views; with O1 some more are fused, and stand in no layer."""
    assert observed(halves(level), num_layers=2).recomputed_by_layer == {"0": count}


def made(event: int, name: str, *inputs: int, output: int | None = None) -> Task:
    return Task(
        event=event,
        name=f"{name}-op{event}",
        inputs=inputs,
        outputs=(event if output is None else output,),
        attributes=(),
        input_tensors=(),
        output_tensors=(),
    )


@pytest.mark.parametrize(
    ("last", "is_one"),
    [
        (made(5, "Default/MatMul", 4, 2), True),  # of what the layer computed again
        (made(5, "Default/MatMul", 4, 1), False),  # of what it computed for the forward pass
        (made(5, "Default/Reshape", 4, 2, output=4), False),  # a view is of the pass of its readers
        (made(5, "Default/GraphKernel_Mul_fusion", 4, 1), True),
        (made(5, "Default/GraphKernel_Mul_fusion", 1, 2), False),  # nothing of a gradient
        (made(5, f"{LAYER}/Mul", 4, 2), False),  # it has a cell, which tells
    ],
)
def test_what_has_no_cell_is_a_gradient_by_what_it_reads(last: Task, is_one: bool) -> None:
    """3 is a gradient, and 4 what MindSpore puts together of it; 2 computes again what 1 did."""
    steps = [
        made(1, f"{LAYER}/Mul", 0),
        made(2, f"{LAYER}/Mul", 0),
        made(3, f"{GRADIENTS}{LAYER}/Grad_Mul/Mul", 9),
        made(4, "Default/Concat", 3),
        last,
    ]
    assert _without_a_name(steps, [0, 0, 2, 3, 4]) == ({last.event} if is_one else set())


def test_what_comes_back_from_the_host_is_no_gradient_though_it_bears_the_name() -> None:
    steps = [made(1, f"{GRADIENTS}{LAYER}/MoveTo", 0), made(2, "Default/GraphKernel_Mul_fusion", 1)]
    assert _without_a_name(steps, [0, 1]) == set()


def test_the_sum_of_losses_does_not_turn_the_layers_around() -> None:
    """MindSpore runs it in the midst of the backward pass, and names it after whatever cell made one last."""
    forward, backward, network = Phase.FORWARD, Phase.BACKWARD, "Default/network-N/model-M"
    steps = [
        made(1, f"{network}/embedding-E/Gather", 0),
        made(2, f"{LAYER}/Mul", 1),
        made(3, f"{network}/loss-L/Div", 2),
        made(4, f"{GRADIENTS}{LAYER}/Grad_Mul/Mul", 3),
        made(5, f"{network}/rotary-R/Add", 3),
        made(6, f"{LAYER}/Mul", 1),  # again: only the gradient behind it reads it
        made(7, f"{GRADIENTS}{LAYER}/Grad_Mul/Mul", 6),
    ]
    readers = {1: (2, 6), 2: (3,), 3: (4, 5), 6: (7,)}
    users = [(task.event, readers.get(task.event, ())) for task in steps]
    named = [forward, forward, forward, backward, forward, forward, backward]
    turning = _turning(steps, named, users)
    assert turning == {1, 2, 3, 4, 6, 7}
    late = [task.event == 6 for task in steps]
    found = _phases(steps, named, [False] * len(steps), late, turning)
    assert found == (forward, forward, forward, backward, forward, Phase.RECOMPUTED, backward)


def test_a_gradient_of_a_layer_of_the_next_stage_is_of_layers_and_one_of_nothing_is_not() -> None:
    """What the first stage receives is made by no task of its trace."""
    received, beside = f"{GRADIENTS}Default/Grad_Send", f"{GRADIENTS}Default/Grad_Mul"
    steps = [
        made(1, f"{received}/Receive", 0),
        made(2, f"{GRADIENTS}Default/Grad_Reshape/Reshape", 1),
        made(3, f"{beside}/Zeros", 0),
        made(4, f"{beside}/Mul", 3),
    ]
    assert of_layers(steps) == {1, 2}


def test_what_the_next_micro_batch_computes_forward_in_fused_kernels_is_not_for_the_backward_pass() -> None:
    """What is read inside of the kernel that makes it has readers in the forward pass, and so has what leads there."""
    steps = packed(TRACES / "fused_in_order" / "qwen3").opened.trace
    found = {
        phase
        for task, phase in zip(steps.step_tasks, steps.step_phases, strict=True)
        if task.scope.endswith("casual_mask-CausalMaskGenerate") and not task.name.startswith(GRADIENTS)
    }
    assert found == {Phase.FORWARD}


def test_inside_of_a_fused_kernel_the_type_of_an_operator_is_not_what_tells_it_from_another() -> None:
    """SiLU is float32 where only its kernel reads it, and bfloat16 where the backward pass does; a cast is its type."""
    inner, outer = Tensor("Float32", (8, 1)), Tensor("BFloat16", (8, 1))
    silu, cast = (replace(made(1, f"{LAYER}/{name}"), name=f"{LAYER}/{name}-op0") for name in ("SiLU", "Cast"))
    assert _made(replace(silu, output_tensors=(inner,))) == _made(replace(silu, output_tensors=(outer,)))
    assert _made(replace(cast, output_tensors=(inner,))) != _made(replace(cast, output_tensors=(outer,)))


@pytest.mark.parametrize(
    ("late", "known"),
    [
        ((False, True, True), [False, True, True]),  # computed again
        ((True, True, True), [False, False, False]),  # a bias that only what runs again casts, once a micro-batch
        ((True, False, True), [True, True, True]),  # again in front of the forward pass
    ],
)
def test_what_is_only_made_for_the_backward_pass_is_not_computed_again(
    late: tuple[bool, ...], known: list[bool]
) -> None:
    steps = [made(event, f"{LAYER}/Cast", 0) for event in (1, 2, 3)]
    assert _known(steps, [0, 0, 0], late) == known
