"""What a swap in a PyNative run holds longer: what it moves for operators that no gradient reaches, and gradients.

As in a router, whose top-k gives indices to pick by, and values that nobody uses; and what comes to a layer whose hooks
say when to move.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from swapconf.trace.lifetimes import NEVER, TICKS
from swapconf.trace.marks import Mark, Moment
from swapconf.trace.trace import Block, Task, Tensor, Trace
from swapconf.whatif.pynative.changes import Changes, Replay
from swapconf.whatif.pynative.intervals import steps
from swapconf.whatif.pynative.layout import Layout
from swapconf.whatif.pynative.recompute import recompute
from swapconf.whatif.pynative.swap import end_of_moved, hold_gradient, move_gathered, moved_rows, swap

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


@pytest.mark.parametrize(("scattered_at", "stays"), [(None, True), (48, False), (80, True)])
def test_indices_by_which_a_gradient_is_scattered_are_asked_for(scattered_at: int | None, stays: bool) -> None:
    """Zeros, as nobody uses the values; but the operator asks for what it saved. 80 is behind this backward pass."""
    later = () if scattered_at is None else (task(scattered_at, "InplaceScatterSrc", (INDICES,)),)
    trace = made(
        [block(VALUES, 13), block(INDICES, 50, 14, 45), block(PICKED, 50, 45)],
        task(10, "TopkExt", (), (VALUES, "Float32"), (INDICES, "Int64")),
        task(14, "GatherD", (INDICES,), (PICKED, "Float32")),
        task(45, "GatherDGradV2", (INDICES, PICKED)),
        *later,
    )
    assert end_of(trace, INDICES) == (NEVER if stays else 50)


PARAMETER, GATHERED, JOINED = 0, 6, 8


def gathered(first: Task, *behind: Task, blocks: tuple[Block, ...] = ()) -> Trace:
    """A parameter that is there before the step, and what is gathered of it for the layer and released before the
    backward pass."""
    users = sorted({one.event for one in (first, *behind) if PARAMETER in one.inputs})
    return made(
        [block(PARAMETER, NEVER, *users), block(GATHERED, 25, *(one.event for one in behind)), *blocks], first, *behind
    )


def test_a_parameter_that_is_put_together_from_what_was_gathered_is_no_tensor_to_move() -> None:
    gather = task(6, "DistCommAllGatherIntoTensor", (PARAMETER,), (GATHERED, "BFloat16"))
    parts = task(7, "ChunkView", (GATHERED,), (GATHERED, "BFloat16"), (GATHERED, "BFloat16"))
    joined = task(8, "Concat", (GATHERED, GATHERED), (JOINED, "BFloat16"))
    product, gradient = task(10, "GroupedMatmul", (JOINED,)), task(45, "GroupedMatmul", (JOINED,))
    trace = gathered(gather, parts, joined, product, gradient, blocks=(block(JOINED, 50, 10, 45),))
    assert moves_of(trace) == []


def test_a_view_of_a_parameter_moves_unless_it_is_taken_to_copy_the_parameter() -> None:
    view = task(6, "Transpose", (PARAMETER,), (PARAMETER, "BFloat16"))
    saved = made(
        [block(PARAMETER, NEVER, 6, 10, 45)],
        view,
        task(10, "MatMulExt", (PARAMETER,)),
        task(45, "MatMulExt", (PARAMETER,)),
    )
    assert moves_of(saved) == [PARAMETER]
    copy = task(7, "InplaceCopy", (PARAMETER,), (GATHERED, "BFloat16"))
    again = task(45, "InplaceCopy", (PARAMETER,))
    blocks = [block(PARAMETER, NEVER, 6, 7, 45), block(GATHERED, 25, 10)]
    assert moves_of(made(blocks, view, copy, task(10, "MatMulExt", (GATHERED,)), again)) == []


@pytest.mark.parametrize(("leaves", "until"), [(22, NEVER), (27, 27 * TICKS)])
def test_what_is_gathered_once_more_is_lost_where_the_first_is_away_and_goes_with_it_where_it_goes_later(
    leaves: int, until: int
) -> None:
    again = 24
    trace = made(
        [block(PARAMETER, NEVER, 6, 24), block(GATHERED, 15, 7, 10), block(again, 33, 24)],
        task(6, "DistCommAllGatherIntoTensor", (PARAMETER,), (GATHERED, "BFloat16")),
        task(7, "Transpose", (GATHERED,), (GATHERED, "BFloat16")),
        task(10, "MatMulExt", (GATHERED,)),
        task(24, "DistCommAllGatherIntoTensor", (PARAMETER,), (again, "BFloat16")),
    )
    (step,) = steps(trace.marks)
    layer = step.layer(0)
    assert layer is not None
    layout = Layout(trace)
    changes = layout.unchanged()
    move_gathered(layout, changes, step, layer, leaves * TICKS, 40 * TICKS)
    row = layout.start.tolist().index(again)
    assert (NEVER if row in changes.lost else changes.end[row]) == until


def moves_of(trace: Trace) -> list[int]:
    """Births of what a swap of the layer moves."""
    (step,) = steps(trace.marks)
    layer = step.layer(0)
    assert layer is not None
    layout = Layout(trace)
    changes = layout.unchanged()
    swap(layout, changes, step, layer, layer)
    return [int(layout.start[one.row]) for one in changes.moves]


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


def recomputed(trace: Trace) -> tuple[Layout, Changes]:
    """What becomes of its blocks where the layer runs again."""
    (step,) = steps(trace.marks)
    layer = step.layer(0)
    assert layer is not None
    layout = Layout(trace, (step,))
    changes = layout.unchanged()
    recompute(layout, changes, step, layer)
    return layout, changes


def test_what_the_core_of_attention_makes_is_there_until_it_is_through() -> None:
    """Python's names have it, when nothing saves it any more; outside, the last reader lets go."""
    keys, scores, outside = 9, 11, 14
    trace = made(
        [block(keys, 50, 10, 45), block(scores, 50, 12, 46), block(outside, 50, 16, 47)],
        task(9, "Contiguous", (), (keys, "BFloat16")),
        task(10, "FlashAttentionScore", (keys,)),
        task(11, "Mul", (), (scores, "Float32")),
        task(12, "Exp", (scores,)),
        task(13, "Reshape", ()),
        task(14, "Mul", (), (outside, "Float32")),
        task(16, "Exp", (outside,)),
        task(17, "Mul", ()),
        task(45, "FlashAttentionScoreGrad", (keys,)),
        task(46, "Mul", (scores,)),
        task(47, "Mul", (outside,)),
    )
    core = (
        Mark(8, Moment.MODULE_BEGINS, 0, "self_attention.core_attention"),
        Mark(13, Moment.MODULE_ENDS, 0, "self_attention.core_attention"),
    )
    trace = replace(trace, marks=tuple(sorted((*trace.marks, *core), key=lambda mark: mark.event)))
    layout, changes = recomputed(trace)
    assert changes.end.tolist() == [layout.behind(13), layout.behind(13), layout.behind(16)]


@pytest.mark.parametrize(("is_read_behind", "stays"), [(True, True), (False, False)])
def test_where_each_token_was_stays_until_the_layer_sends_tokens_again(is_read_behind: bool, stays: bool) -> None:
    """Saved for the backward pass, too; but the dispatch of tokens has it, to put back what comes home."""
    order, tokens = 7, 9
    trace = made(
        [block(order, 50, 10, *((13,) if is_read_behind else ()), 45), block(tokens, 18, 11)],
        task(7, "ArgSort", (), (order, "Int64")),
        task(9, "InnerCommAllToAllV", (), (tokens, "BFloat16")),
        task(10, "IndexSelect", (order,)),
        task(11, "GroupedMatmul", (tokens,)),
        task(13, "IndexSelect", (order,) if is_read_behind else ()),
        task(14, "Mul", ()),
        task(45, "InplaceIndexAddExt", (order,)),
    )
    experts = (Mark(8, Moment.MODULE_BEGINS, 0, "mlp.experts"), Mark(16, Moment.MODULE_ENDS, 0, "mlp.experts"))
    trace = replace(trace, marks=tuple(sorted((*trace.marks, *experts), key=lambda mark: mark.event)))
    _, changes = recomputed(trace)
    assert bool(changes.end[0] > MOMENTS[4][0] * TICKS) is stays


def test_in_a_gpipe_what_is_kept_of_tokens_goes_when_the_layer_sends_them_again_and_not_as_it_begins() -> None:
    """Both micro-batches go forward before the first goes back, so that the next to send tokens is what runs again."""
    blocks, tasks = [], [task(8, "Mul", ())]
    marks = [Mark(1, Moment.STEP_BEGINS, -1)]
    for first, turn in ((10, 60), (30, 80)):
        order, tokens = first + 2, first + 4
        blocks += [block(order, turn + 6, first + 5, first + 7, turn + 3), block(tokens, first + 9, first + 6)]
        tasks += [
            task(order, "ArgSort", (), (order, "Int64")),
            task(tokens, "InnerCommAllToAllV", (), (tokens, "BFloat16")),
            task(first + 5, "IndexSelect", (order,)),
            task(first + 6, "GroupedMatmul", (tokens,)),
            task(first + 7, "IndexSelect", (order,)),
            task(turn + 3, "InplaceIndexAddExt", (order,)),
        ]
        marks += [
            Mark(first, Moment.FORWARD_BEGINS, 0),
            Mark(first + 3, Moment.MODULE_BEGINS, 0, "mlp.experts"),
            Mark(first + 8, Moment.MODULE_ENDS, 0, "mlp.experts"),
            Mark(first + 10, Moment.FORWARD_ENDS, 0),
            Mark(first + 11, Moment.MODEL_ENDS, -1),
            Mark(turn, Moment.BACKWARD_PASS_BEGINS, -1),
            Mark(turn + 1, Moment.BACKWARD_BEGINS, 0),
            Mark(turn + 8, Moment.BACKWARD_ENDS, 0),
            Mark(turn + 9, Moment.BACKWARD_PASS_ENDS, -1),
        ]
    made_of = sorted(tasks, key=lambda one: one.event)
    trace = replace(made(blocks, *made_of), marks=tuple(sorted(marks, key=lambda mark: mark.event)))
    one, other = steps(trace.marks)
    layer, later = one.layer(0), other.layer(0)
    assert layer is not None
    assert later is not None
    layout = Layout(trace, (one, other))
    changes = layout.unchanged()
    recompute(layout, changes, one, layer)
    (kept,) = [again.end for again in changes.again if layout.start[again.row] == 12]
    assert later.turn is not None
    assert later.turn * TICKS < kept == Replay(later.start, 83).at(36)
