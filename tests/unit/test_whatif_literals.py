"""Which literals of a run without a strategy still lie on the device with one, on graphs of a few nodes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from swapconf.trace.launch_graph import DEPEND, NO_NODE, STATE, TUPLE, LaunchGraph
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.graph.asked import NO_CELL, Asked
from swapconf.whatif.graph.constants import has_flat_results, merged_literals
from swapconf.whatif.graph.run_graph import RunGraph

_UNREAD = (3, 5)
_LOSS, _STATE = 0, 1  # numbers of nodes


def _run(nodes: Sequence[tuple[str, tuple[int, ...]]]) -> RunGraph:
    """Behind a loss and a state; the last node is the tuple that a forward pass hands on."""
    primitive, inputs = zip(("Div", ()), (STATE, ()), *nodes, strict=True)
    nothing = ("",) * len(inputs)
    graph = LaunchGraph(
        name=nothing,
        primitive=primitive,
        inputs=inputs,
        item=np.full(len(inputs), NO_NODE),
        unique=nothing,
        forward_unique=nothing,
        fused=(None,) * len(inputs),
        end=len(inputs) - 1,
    )
    run = RunGraph(baseline=cast(Baseline, None), graph=graph)
    run.__dict__["forward_tuples"] = frozenset({len(inputs) - 1})
    return run


_FLAT = [(TUPLE, (_LOSS, NO_NODE, NO_NODE, _LOSS))]


@pytest.mark.parametrize(
    ("nodes", "is_flat"),
    [
        (_FLAT, True),
        ([(DEPEND, (_LOSS, _STATE)), (TUPLE, (2, NO_NODE, _LOSS))], True),  # the loss alone waits for something
        ([(TUPLE, (_LOSS, NO_NODE)), (DEPEND, (2, _STATE)), (TUPLE, (3, NO_NODE))], False),
        ([(TUPLE, (_LOSS, _STATE))], False),  # one result, then what is saved
    ],
)
def test_results_are_flat_where_they_stand_beside_what_is_saved(
    nodes: Sequence[tuple[str, tuple[int, ...]]], is_flat: bool
) -> None:
    assert has_flat_results(_run(nodes)) == is_flat


def _asked(cell: int, *, is_sent: bool = False, is_mcore: bool = True) -> Asked:
    """``cell``: the recomputed cell in which a kernel is called."""
    asked = SimpleNamespace(
        baseline=SimpleNamespace(unread_literals=_UNREAD, is_sent_gradients=is_sent),
        run=_run(_FLAT),
        called=np.array([NO_CELL, cell]),
        is_mcore=is_mcore,
    )
    return cast(Asked, asked)


def test_a_recomputed_cell_that_is_called_leaves_no_literal_that_nothing_reads() -> None:
    assert merged_literals(_asked(0)) == _UNREAD


def test_without_such_a_cell_all_stay() -> None:
    assert merged_literals(_asked(NO_CELL)) == ()


def test_in_front_of_another_stage_and_in_legacy_models_all_stay() -> None:
    assert merged_literals(_asked(0, is_sent=True)) == merged_literals(_asked(0, is_mcore=False)) == ()
