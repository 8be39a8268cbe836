"""What a cast of a weight reads that runs again by itself: on two micro-batches of one layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram, recompute
from swapconf.whatif.weight_copies import copied
from tests.unit.test_whatif_graphs import baseline, gradient, node

CASTS, ROWS = (1, 4), (70, 80)


def graph(norm: str) -> tuple[Baseline, StrategyProgram]:
    """Of each micro-batch something that reads a weight for a norm, a cast, and what reads both."""
    found = baseline(
        node(0, 0, primitive=norm),
        node(0, 0, primitive="Cast"),
        node(0, 0, 0, 1, primitive="MatMul"),
        node(0, 3, primitive=norm),
        node(0, 3, primitive="Cast"),
        node(0, 3, 3, 4, primitive="MatMul"),
        gradient(4),
        gradient(1),
    )
    found = replace(found, weights=dict(zip(CASTS, ROWS, strict=True)))
    flagged = np.isin(np.arange(8), CASTS)
    nothing = np.full(len(found.reads.block), -1, dtype=np.int64)
    program = recompute(
        found, nothing, flagged, found.kernels.backward[found.reads.kernel], np.full(8, -1, dtype=np.int64)
    )
    return found, program


def test_it_is_a_copy_of_the_weight_from_the_start_of_the_micro_batch_until_the_cast_runs_again() -> None:
    found, program = graph("TensorMove")
    changed, copies = copied(found, program, np.ones(8, dtype=np.bool_))
    assert copies.row.tolist() == list(ROWS)
    assert copies.until.tolist() == program.inserted.tolist()
    assert TICKS - TICKS // 2 < copies.born[0] < changed.where[1] == TICKS
    assert 4 * TICKS < copies.born[1] < changed.where[4] < 5 * TICKS
    assert np.delete(changed.where, 4).tolist() == np.delete(program.where, 4).tolist()


@pytest.mark.parametrize(("norm", "alone"), [("TensorMove", False), ("Add", True)])
def test_it_is_the_weight_itself_in_a_recomputed_cell_and_where_norms_read_weights_themselves(
    norm: str, alone: bool
) -> None:
    found, program = graph(norm)
    changed, copies = copied(found, program, np.full(8, alone))
    assert changed is program
    assert copies.row.tolist() == copies.born.tolist() == copies.until.tolist() == []
