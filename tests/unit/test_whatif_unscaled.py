"""What runs again without lazy inline, what is launched before it, and sums, on graphs of a few kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.kept import left_without_lazy_inline
from swapconf.whatif.lazy_inline import barred, barriers
from swapconf.whatif.recompute import StrategyProgram, recompute, taken
from swapconf.whatif.unscaled import unscaled_by_turns, unscaled_early
from tests.unit.test_whatif_graphs import FUSED, Item, baseline, gradient, node


def program(graph: Baseline, again: Sequence[int]) -> StrategyProgram:
    flagged = np.isin(np.arange(len(graph.kernels)), again)
    reads = graph.reads
    return recompute(
        graph,
        np.full(len(reads.block), -1, dtype=np.int64),
        flagged,
        flagged[reads.face] & graph.kernels.backward[reads.kernel],
        np.full(len(graph.kernels), -1, dtype=np.int64),
    )


def step(loss: str) -> Baseline:
    """Two layers of a norm and a product (0 to 3), the loss (4), its gradient (5) and those of the layers (6 to 9), the
    scale (10), its inverse (11), and the gradients of the second and the first layer, divided by it (12, 13)."""
    return baseline(
        node(0, 0, primitive="RmsNorm"),
        node(0, 0, 0),
        node(1, 2, 1, primitive="RmsNorm"),
        node(1, 2, 2),
        Item(reads=[3], primitive=loss),
        gradient(4),
        Item(reads=[2, 5], backward=True),
        Item(reads=[2, 6], backward=True, primitive="RmsNormGrad"),
        Item(reads=[0, 7], backward=True),
        Item(reads=[0, 8], backward=True, primitive="RmsNormGrad"),
        Item(primitive="Mul"),
        Item(reads=[10], primitive="Reciprocal"),
        Item(reads=[7, 11], primitive="Mul"),
        Item(reads=[9, 11], primitive="Mul"),
    )


@pytest.mark.parametrize(
    ("loss", "again", "moved"),
    [
        ("AssignAdd", (0,), {10, 11, 12}),
        ("AssignAdd", (0, 2), {10, 11, 12}),
        ("AssignAdd", (2,), set()),  # the norm of the first layer is read later
        ("AssignAdd", (), set()),
        ("Add", (0,), set()),  # legacy models do not add up their losses
    ],
)
def test_finished_gradients_are_divided_before_the_first_layer_runs_again(
    loss: str, again: Sequence[int], moved: set[int]
) -> None:
    graph = step(loss)
    before = program(graph, again)
    found = unscaled_early(graph, before)
    assert set(np.flatnonzero(found.where != before.where).tolist()) == moved
    if moved:
        at = found.where[[10, 11, 12]].tolist()
        assert 7 * TICKS < at[0] < at[1] < at[2] < before.inserted[before.copies == 0]
        assert set(found.position[np.isin(found.reader, (11, 12))].tolist()) == {at[1], at[2]}


def communicated(loss: str) -> Baseline:
    """One layer (0, 1), the loss (2), and the gradients of three matrices (4, 6, 8) and of a norm (10), each behind it
    communicated; the scale (12), its inverse (13), what divides (14 to 17), and the optimizer, which reads the state
    that it keeps of the weights (18 to 21)."""
    gradients = [
        item
        for primitive in ("MatMul", "MatMul", "MatMul", "RmsNormGrad")
        for item in (Item(reads=[0], backward=True, primitive=primitive), "AllReduce")
    ]
    items = [node(0, 0), node(0, 0, 0), Item(reads=[1], primitive=loss), gradient(1)]
    for item in gradients:
        items.append(
            Item(reads=[len(items) - 1], backward=True, primitive=item, stream=1) if isinstance(item, str) else item
        )
    items += [Item(primitive="Mul"), Item(reads=[12], primitive="Reciprocal")]
    items += [Item(reads=[gradient, 13], primitive="Mul") for gradient in (5, 7, 9, 11)]
    items += [Item(reads=[kernel], primitive="Assign") for kernel in (14, 15, 16, 17)]
    return baseline(*items)


@pytest.mark.parametrize(
    ("loss", "turns", "moved"),
    [
        ("AssignAdd", (0, 1, 2, 3), {14: 7, 16: -1}),  # of the last matrix nothing is behind it
        ("AssignAdd", (1, 0, 3, 2), {15: 9}),  # nor behind the norm
        ("AssignAdd", (2, 4, 1, 3), {14: 7, 15: 9}),
        ("Add", (0, 1, 2, 3), {}),  # legacy models do not add up their losses
    ],
)
def test_with_lazy_inline_every_other_gradient_is_divided_when_the_next_matrix_has_its_own(
    loss: str, turns: Sequence[int], moved: dict[int, int]
) -> None:
    graph = replace(communicated(loss), states=dict(zip((18, 19, 20, 21), turns, strict=True)))
    before = program(graph, ())
    found = unscaled_by_turns(graph, before)
    expected = {kernel: behind for kernel, behind in moved.items() if behind >= 0}
    changed = set(np.flatnonzero(found.where != before.where).tolist())
    assert changed == ({*expected, 12, 13} if expected else set())
    for kernel, behind in expected.items():
        assert behind * TICKS < found.where[kernel] < (behind + 1) * TICKS
        assert found.where[12] <= found.where[13] <= found.where[kernel]


def divided_at_once() -> Baseline:
    """With routers the scale (4) and its inverse (5) are there before the gradients of three matrices (6, 9, 12), each
    communicated and divided at once; the optimizer (15 to 17)."""
    items = [node(0, 0), node(0, 0, 0), Item(reads=[1], primitive="AssignAdd"), gradient(1)]
    items += [Item(primitive="Mul"), Item(reads=[4], primitive="Reciprocal")]
    for kernel in (6, 9, 12):
        items.append(Item(reads=[0, 3], backward=True, primitive="MatMul"))
        items.append(
            Item(reads=[kernel], backward=True, primitive="ReduceScatter" if kernel == 9 else "AllReduce", stream=1)
        )
        items.append(Item(reads=[kernel + 1, 5], primitive="Mul"))
    return baseline(*items, *(Item(reads=[kernel], primitive="Assign") for kernel in (8, 11, 14)))


@pytest.mark.parametrize(("turns", "moved"), [((0, 1, 2), {11, 10}), ((1, 2, 0), {8}), ((3, 2, 1), {8, 14})])
def test_what_waits_for_the_whole_tuple_is_divided_behind_all_gradients_and_scattered_only_then(
    turns: Sequence[int], moved: set[int]
) -> None:
    graph = replace(divided_at_once(), states=dict(zip((15, 16, 17), turns, strict=True)))
    before = program(graph, ())
    found = unscaled_by_turns(graph, before)
    assert set(np.flatnonzero(found.where != before.where).tolist()) == moved
    assert all(found.where[kernel] > 13 * TICKS - TICKS for kernel in moved)


def test_of_an_embedding_that_is_read_twice_the_gradient_is_no_part_of_the_tuple() -> None:
    graph = communicated("AssignAdd")
    primitive = ("AddN" if kernel == 4 else name for kernel, name in enumerate(graph.kernels.primitive))
    graph = replace(
        graph, kernels=replace(graph.kernels, primitive=tuple(primitive)), states={18: 0, 19: 1, 20: 2, 21: 3}
    )
    before = program(graph, ())
    moved = np.flatnonzero(unscaled_by_turns(graph, before).where != before.where)
    assert moved.tolist() == [12, 13, 15]


@pytest.mark.parametrize("steps", [1, 2])
def test_gradients_that_need_nothing_of_the_loss_run_behind_the_forward_pass(steps: int) -> None:
    """The gradient of a router (1) is launched with the forward pass (0, 2); the loss (3, 4), what it computes for its
    gradient (5), and gradients (6 to 8), the last of which reads that of the router."""
    step = (
        node(0, 0),
        gradient(0),
        node(0, 0, 0),
        Item(reads=[2]),
        Item(reads=[3]),
        Item(reads=[3]),
        gradient(3),
        gradient(5, 6),
        Item(reads=[0, 1, 7], backward=True),
    )
    graph = replace(baseline(*step), steps=steps)
    found = barriers(graph)
    if steps == 2:  # then a step would have no forward pass
        assert not graph.early_gradients.any()
        return
    assert [(barrier.start, barrier.early) for barrier in found] == [(6, {1: 8})]
    before = program(graph, ())
    assert 7 * TICKS < barred(before, found).where[1] < 8 * TICKS


def test_without_lazy_inline_tokens_are_not_dispatched_again() -> None:
    graph = baseline(
        node(0, 0), node(0, 0, 0, primitive="AlltoAllV"), node(0, 0, 1, primitive="AllGather"), gradient(2)
    )
    assert np.flatnonzero(left_without_lazy_inline(graph, ())).tolist() == [1]


def test_without_lazy_inline_what_is_named_after_a_cell_outside_of_the_layers_does_not_run_again() -> None:
    """TeleChat3: parallelism puts a slice behind the rotary embedding of the keys, and names it after the tables."""
    graph = baseline(node(0, 0), node(0, 0, 0, primitive="StridedSlice"), node(0, 0, 1), gradient(2))
    layer = "Default/network-N/layers-CellList/0-L"
    names = (f"{layer}/Mul-op0", "Default/network-N/rotary-R/StridedSlice-op0", f"{layer}/Add-op0", f"{layer}/Add-op1")
    graph = replace(graph, kernels=replace(graph.kernels, name=names))
    assert np.flatnonzero(left_without_lazy_inline(graph, ())).tolist() == [1]


def test_a_sum_that_a_norm_is_fused_with_is_the_only_output_of_its_add() -> None:
    """Of what the two make together, the sum (3) may move for what runs again, the mean (2) may not."""
    graph = baseline(*FUSED[:2], node(1, 1, 2, 3), gradient(4))
    found = program(graph, (2,))
    chosen = taken(graph, found)
    assert found.block[chosen].tolist() == [2]
    assert {2, 3} <= set(found.block[found.again].tolist())


def test_what_runs_again_reads_a_sum_for_the_add_that_made_it() -> None:
    """The Add of the layer before is site 7, the fused norm 5."""
    graph = baseline(*FUSED[:2], node(1, 1, 3), Item(reads=[3, 4], backward=True))
    reads, flagged = graph.reads, np.array([False, False, True, False])
    of_read = np.where((reads.block == 3) & graph.kernels.backward[reads.kernel], 7, -1)
    rows = flagged[reads.face] & graph.kernels.backward[reads.kernel]
    found = recompute(graph, of_read, flagged, rows, np.array([-1, 5, -1, -1]))
    assert found.site[found.again].tolist() == [7]
