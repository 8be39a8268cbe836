"""What a swap in a PyNative run holds longer: what it moves for operators that no gradient reaches, and gradients.

As in a router, whose top-k gives indices to pick by, and values that nobody uses; and what comes to a layer whose hooks
say when to move.
"""

from __future__ import annotations

import pytest

from swapconf.trace.lifetimes import NEVER, TICKS
from swapconf.trace.marks import Mark, Moment
from swapconf.trace.trace import Block, Task, Tensor, Trace
from swapconf.whatif.pynative.intervals import steps
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.swap import end_of_moved, hold_gradient, moved_rows

VALUES, INDICES, PICKED, MASK = 11, 12, 15, 7
MOMENTS = (
    (1, Moment.STEP_BEGINS, -1),
    (5, Moment.FORWARD_BEGINS, 0),
    (20, Moment.FORWARD_ENDS, 0),
    (30, Moment.BACKWARD_PASS_BEGINS, -1),
    (40, Moment.BACKWARD_BEGINS, 0),
    (60, Moment.BACKWARD_ENDS, 0),
    (70, Moment.BACKWARD_PASS_ENDS, -1),
)


def block(start: int, end: int, *users: int) -> Block:
    return Block(
        start=start,
        end=end,
        address=start * 4096,
        size_bytes=2048,
        stream=0,
        pool="Device",
        kind="PyNativeOutput",
        task=None,
        task_name="PyNative",
        node="",
        users=users,
        is_persistent=False,
        used_bytes=0,
        pool_peak_bytes=0,
    )


def task(event: int, name: str, inputs: tuple[int, ...], *outputs: tuple[int, str]) -> Task:
    return Task(
        event=event,
        name=name,
        inputs=inputs,
        outputs=tuple(birth for birth, _ in outputs),
        attributes=(),
        input_tensors=(),
        output_tensors=tuple(Tensor(dtype, (400,)) for _, dtype in outputs),
    )


@pytest.mark.parametrize(
    ("values_used", "indices_read", "dtype", "stays"),
    [
        (False, True, "Int64", True),  # the values get no gradient, so their operator never asks
        (True, True, "Int64", False),
        (True, False, "Int64", True),  # nothing of the backward pass reads them
        (True, False, "Float32", False),  # its operator asks for it and does not use it
    ],
)
def test_indices_that_no_gradient_reaches_stay_once_they_are_back(
    values_used: bool, indices_read: bool, dtype: str, stays: bool
) -> None:
    reads = (45,) if indices_read else ()
    trace = made(
        [block(VALUES, 50, *((14,) if values_used else ())), block(INDICES, 50, 14, *reads), block(PICKED, 50, *reads)],
        task(10, "TopkExt", (), (VALUES, "Float32"), (INDICES, dtype)),
        task(14, "GatherD", (INDICES,), (PICKED, "Float32")),
        task(45, "GatherDGradV2", (INDICES, PICKED)),
    )
    assert end_of(trace, INDICES) == (NEVER if stays else 50)


def test_indices_that_go_with_their_operator_move_and_are_there_until_the_layer_is_through() -> None:
    """Those of the load that an auxiliary loss counts: nothing of the backward pass hangs on them, and yet the operator
    that saved them handed them to the hooks."""
    counts = 16
    trace = made(
        [block(VALUES, 13), block(INDICES, 18, 14), block(counts, 17, 16)],
        task(10, "TopkExt", (), (VALUES, "Float32"), (INDICES, "Int64")),
        task(14, "HistcExt", (INDICES,), (counts, "Float32")),
    )
    (step,) = steps(trace.marks)
    layer = step.layer(0)
    assert layer is not None
    layout = Layout(trace)
    assert [layout.start[row] for row in moved_rows(layout, step, layer)] == [INDICES]
    assert end_of(trace, INDICES) == layer.through


@pytest.mark.parametrize(("leads_to_it", "stays"), [(True, True), (False, False)])
def test_a_mask_stays_where_it_went_into_what_indices_were_picked_from_and_not_where_it_came_from_them(
    leads_to_it: bool, stays: bool
) -> None:
    scores, masked = 8, 9
    trace = made(
        [
            block(MASK, 50, 9 if leads_to_it else 16),
            block(scores, 50, 9),
            block(masked, 12, 10),
            block(VALUES, 12),
            block(INDICES, 50, 14),
            block(PICKED, 50, 16),
        ],
        task(6, "Less", (), (MASK, "Bool")),
        task(9, "MaskedFillScalar", (scores, MASK) if leads_to_it else (scores,), (masked, "Float32")),
        task(10, "TopkExt", (masked,), (VALUES, "Float32"), (INDICES, "Int64")),
        task(14, "GatherD", (INDICES,), (PICKED, "Float32")),
        task(16, "Select", (PICKED,) if leads_to_it else (MASK, PICKED), (PICKED, "Float32")),
    )
    assert end_of(trace, MASK) == (NEVER if stays else 50)
    assert end_of(trace, INDICES) == NEVER


@pytest.mark.parametrize(("is_told", "until"), [(True, 55), (False, 70)])
def test_the_gradient_that_comes_to_a_layer_of_the_chain_is_held_until_it_is_through(is_told: bool, until: int) -> None:
    other, gradient = 35, 38
    told = ((55, Moment.BACKWARD_ENDS, 1),) if is_told else ()
    trace = made(
        [block(other, 45, 43), block(gradient, 45, 42)],
        task(35, "Mul", (), (other, "Float32")),
        task(38, "Mul", (), (gradient, "Float32")),
        task(42, "MulGrad", (gradient,)),
        task(43, "MulGrad", (other,)),
        moments=(
            *MOMENTS[:3],
            (21, Moment.FORWARD_BEGINS, 1),
            (25, Moment.FORWARD_ENDS, 1),
            (30, Moment.BACKWARD_PASS_BEGINS, -1),
            (40, Moment.BACKWARD_BEGINS, 1),
            *told,
            (55, Moment.BACKWARD_BEGINS, 0),
            *MOMENTS[5:],
        ),
    )
    (step,) = steps(trace.marks)
    layer = step.layer(1)
    assert layer is not None
    layout = Layout(trace)
    changes = layout.unchanged()
    hold_gradient(layout, changes, step, layer)
    assert changes.end.tolist() == [45 * TICKS, until * TICKS]


def made(blocks: list[Block], *tasks: Task, moments: tuple[tuple[int, Moment, int], ...] = MOMENTS) -> Trace:
    return Trace(
        folder="",
        rank=0,
        blocks=blocks,  # type: ignore[arg-type]  # rows become columns
        kernels=(),
        tasks=tasks,
        marks=tuple(Mark(*moment) for moment in moments),
    )


def end_of(trace: Trace, birth: int) -> int:
    """The release of a block that the layer moves, once it is back."""
    (step,) = steps(trace.marks)
    layer = step.layer(0)
    assert layer is not None
    assert (layer.turn, layer.through) == (40, 60)
    layout = Layout(trace)
    return end_of_moved(layout, layout.start.tolist().index(birth), step, layer)


def test_what_runs_again_does_so_before_an_operator_has_memory_for_what_it_makes() -> None:
    trace = made(
        [block(31, 50), block(36, 50)],
        task(32, "RmsNormGrad", (), (31, "Float32")),
        task(36, "Mul", (), (36, "Float32")),
    )
    layout = Layout(trace)
    assert [layout.before(event) for event in (32, 36)] == [31, 36]
