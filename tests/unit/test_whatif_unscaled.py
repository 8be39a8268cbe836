"""What runs again without lazy inline, what is launched before it, and sums, on graphs of a few kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.predict import _left_without_lazy_inline
from swapconf.whatif.recompute import StrategyProgram, recompute, taken
from swapconf.whatif.unscaled import unscaled_early
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


def test_without_lazy_inline_tokens_are_not_dispatched_again() -> None:
    graph = baseline(
        node(0, 0), node(0, 0, 0, primitive="AlltoAllV"), node(0, 0, 1, primitive="AllGather"), gradient(2)
    )
    assert np.flatnonzero(_left_without_lazy_inline(graph, ())).tolist() == [1]


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
