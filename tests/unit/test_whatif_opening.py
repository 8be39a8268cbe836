"""What the end of a forward pass sets free: gradients of the loss, what it computes for them, and copies back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.bound import _reached
from swapconf.whatif.lazy_inline import barred, barriers
from swapconf.whatif.opening import opened
from swapconf.whatif.placed import gradient_only
from swapconf.whatif.recompute import StrategyProgram, recompute
from swapconf.whatif.swap import Unread, Windows, _alone, swap
from tests.unit.test_whatif_graphs import FUSED, Item, baseline, gradient, node

# a layer (0, 1), the loss (2, 3), its gradients (4, 5, 7), an exponent (6) that the last of them reads, those of the
# layer (8, 9), and what no gradient reads (10)
LOSS = (
    node(0, 0),
    node(0, 0, 0),
    Item(reads=[1]),
    Item(reads=[2]),
    gradient(2),
    gradient(4),
    Item(reads=[2]),
    gradient(5, 6),
    gradient(7, 1),
    gradient(8, 0),
    Item(reads=[3]),
)
START, BEHIND, EXPONENT = 4, 5, 6


def plain(graph: Baseline) -> StrategyProgram:
    nothing = np.zeros(len(graph.kernels), dtype=np.bool_)
    sites = np.zeros(len(graph.reads.block), dtype=np.int64)
    return recompute(
        graph, sites, nothing, np.zeros(len(sites), dtype=np.bool_), np.zeros(len(nothing), dtype=np.int64)
    )


def moved(graph: Baseline, block: int, prefetch: int) -> Windows:
    """One block goes to the host, and comes back for its gradients."""
    program, nothing = plain(graph), np.zeros(0, dtype=np.int64)
    return swap(
        graph,
        program,
        (program.block == block) & (program.site >= 0),
        np.full(len(program.block), prefetch),
        np.zeros(len(graph.kernels), dtype=np.int64),
        Unread(block=nothing, face=nothing, site=nothing, prefetch=nothing),
    )


def launches(prefetch: int) -> list[int | str]:
    graph = baseline(*LOSS)
    program, windows = opened(graph, plain(graph), moved(graph, 0, prefetch), gradient_only(graph))
    at: dict[int | str, int] = {kernel: int(program.where[kernel]) for kernel in (START, BEHIND, EXPONENT)}
    at["copy"] = int(windows.returned[0])
    return sorted(at, key=lambda item: at[item])


@pytest.mark.parametrize(
    ("prefetch", "order"),
    [
        (2, [START, BEHIND, EXPONENT, "copy"]),  # does not reach so far
        (4, [START, EXPONENT, "copy", BEHIND]),  # between the first two gradients
        (5, [EXPONENT, "copy", START, BEHIND]),  # in front of both
        (6, [EXPONENT, "copy", START, BEHIND]),  # farther back, but not before the start of the step
        (20, [START, BEHIND, EXPONENT, "copy"]),  # before the start of the step
    ],
)
def test_the_gradient_behind_a_copy_waits_for_it_and_what_waits_for_nothing_goes_ahead(
    prefetch: int, order: list[int | str]
) -> None:
    assert launches(prefetch) == order


def test_what_the_loss_computes_for_its_gradient_is_found_whatever_gradients_are_named_after() -> None:
    graph = baseline(*LOSS)
    misnamed = np.where(graph.kernels.backward, 0, graph.kernels.layer)
    graph = replace(graph, kernels=replace(graph.kernels, layer=misnamed))
    assert {start: late.tolist() for start, late in gradient_only(graph).items()} == {START: [EXPONENT]}


def test_what_no_gradient_reads_is_nothing_that_the_loss_computes_for_its_gradient() -> None:
    graph = baseline(*LOSS[:EXPONENT], Item(reads=[2]), gradient(5), gradient(7, 1), gradient(8, 0))
    assert gradient_only(graph) == {}


# without lazy inline: the exponent (3) runs in the forward pass, the last of the loss (7) among gradients
ONCE = (
    *LOSS[:3],
    Item(reads=[2]),
    Item(reads=[2]),
    gradient(2),
    gradient(5),
    Item(reads=[4]),
    gradient(6, 3),
    gradient(8, 1),
    gradient(9, 0),
)


def test_with_lazy_inline_the_forward_pass_ends_before_the_gradients_begin() -> None:
    graph = baseline(*ONCE)
    where = barred(plain(graph), barriers(graph)).where
    assert np.argsort(where).tolist() == [0, 1, 2, 4, 7, 5, 6, 3, 8, 9, 10]


def test_a_stage_of_a_pipeline_has_lazy_inline_anyway() -> None:
    assert barriers(baseline(*ONCE))
    assert not barriers(baseline(*ONCE, Item(primitive="Send")))


@pytest.mark.parametrize(("block", "kernels"), [(3, [1]), (1, [])])
def test_an_add_whose_sum_moves_is_not_fused_with_the_norm(block: int, kernels: list[int]) -> None:
    """It counts as a kernel of its own for how long what moves is held."""
    graph = baseline(*FUSED)
    assert (_alone(graph, plain(graph), moved(graph, block, 1)) // TICKS + 1).tolist() == kernels


def test_to_take_one_of_several_outputs_is_a_step_towards_the_end() -> None:
    graph = baseline(node(0, 0, makes=2), gradient(0), gradient(1), gradient(3))
    assert graph.depth.tolist() == [1, 0, 1, 0]
    assert graph.distance.tolist() == [2, 0, 1, 0]


@pytest.mark.parametrize(("prefetch", "reached"), [(2, []), (5, [EXPONENT])])
def test_the_bound_allows_for_kernels_of_the_loss_that_copies_back_reach(prefetch: int, reached: list[int]) -> None:
    graph = baseline(*LOSS)
    assert _reached(graph, gradient_only(graph), moved(graph, 0, prefetch)) == reached
