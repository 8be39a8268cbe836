"""What a swapped layer of a PyNative run moves for good: what is saved for operators that no gradient reaches.

As in a router, whose top-k gives indices to pick by, and values that nobody uses.
"""

from __future__ import annotations

import pytest

from swapconf.trace.lifetimes import NEVER
from swapconf.trace.marks import Mark, Moment
from swapconf.trace.trace import Block, Task, Tensor, Trace
from swapconf.whatif.pynative.intervals import steps
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.swap import end_of_moved

VALUES, INDICES, PICKED = 11, 12, 15
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
    trace = Trace(
        folder="",
        rank=0,
        blocks=[  # type: ignore[arg-type]  # rows become columns
            block(VALUES, 50, *((14,) if values_used else ())),
            block(INDICES, 50, 14, *reads),
            block(PICKED, 50, *reads),
        ],
        kernels=(),
        tasks=(
            task(10, "TopkExt", (), (VALUES, "Float32"), (INDICES, dtype)),
            task(14, "GatherD", (INDICES,), (PICKED, "Float32")),
            task(45, "GatherDGradV2", (INDICES, PICKED)),
        ),
        marks=tuple(Mark(event, moment, layer) for event, moment, layer in MOMENTS),
    )
    (step,) = steps(trace.marks)
    layer = step.layer(0)
    assert layer is not None
    assert (layer.turn, layer.through) == (40, 60)
    layout = Layout(trace)
    row = layout.start.tolist().index(INDICES)
    assert end_of_moved(layout, row, step, layer) == (NEVER if stays else 50)
