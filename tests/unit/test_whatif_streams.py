"""How long a block is held that communication reads: columns of uses, one launch at each position."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.trace.columns import Kernels
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.recompute import StrategyProgram, recompute
from swapconf.whatif.slots import TURN
from swapconf.whatif.streams import released, sent_ahead
from tests.unit.baselines import of_kernels


def ends(*uses: tuple[int, int, int, int]) -> list[int]:
    """``uses``: (position, stream, position of what made the block, its stream)."""
    position, stream, maker, maker_stream = (np.array(column) for column in zip(*uses, strict=True))
    found: list[int] = released(position, stream, maker, maker_stream, np.arange(10)).tolist()
    return found


def test_a_use_on_the_main_stream_ends_at_once() -> None:
    assert ends((3, 0, 1, 0)) == [3]


def test_what_another_stream_reads_is_held_until_the_main_stream_reads_its_result() -> None:
    """4 reads what 2 has made of the block."""
    assert ends((2, 5, 1, 0), (4, 0, 2, 5)) == [3, 4]


def test_whoever_waits_for_later_communication_has_waited_for_earlier_one_too() -> None:
    """The result of 2 is read at 8, that of 3, on the same stream, at 5."""
    assert ends((2, 5, 1, 0), (8, 0, 2, 5), (5, 0, 3, 5)) == [4, 8, 5]


def test_nobody_waits_for_another_stream_or_for_what_comes_later() -> None:
    """At 5 the main stream reads what was sent on another stream, or before."""
    assert ends((2, 5, 1, 0), (8, 0, 2, 5), (5, 0, 3, 6), (6, 0, 1, 5)) == [7, 8, 5, 6]


def test_a_result_that_nobody_reads_holds_nothing() -> None:
    assert ends((2, 5, 1, 0)) == [2]


@pytest.mark.parametrize(("sent", "again", "ahead"), [(1, (0,), True), (3, (0,), False), (1, (), False)])
def test_a_stage_sends_what_the_forward_pass_made_before_anything_runs_again(
    sent: int, again: tuple[int, ...], ahead: bool
) -> None:
    """0 and 1 are of the forward pass; 2 and 3 are gradients, the first of which reads 0; 4 sends."""
    primitive = ("Cast", "Add", "MatMul", "Mul", "Send")
    kernels = Kernels(
        name=tuple(f"a/b/{index}" for index in range(5)),
        layer=np.zeros(5, dtype=np.int64),
        cell=("",) * 5,
        primitive=primitive,
        stream=np.array([0, 0, 0, 0, 5]),
        backward=np.isin(np.arange(5), (2, 3)),
        passing=np.array([0, 0, -1, -1, -1]),
        before=np.arange(6),
    )
    found = of_kernels(kernels, [(0, 2), (2, 3), (sent, 4)])
    flagged = np.isin(np.arange(5), again)
    rows = flagged[found.reads.face] & kernels.backward[found.reads.kernel]
    none = np.full(len(rows), -1, dtype=np.int64)
    program = recompute(found, none, flagged, rows, np.full(5, -1, dtype=np.int64))
    moved = sent_ahead(found, program)
    assert bool(moved.where[4] < min(program.inserted.tolist(), default=0)) == ahead
    assert moved.where[4] > TICKS
    assert moved.where[:4].tolist() == program.where[:4].tolist()


def test_stages_meet_in_the_order_of_the_run_whatever_runs_again() -> None:
    """0 and 1 are of the forward pass; 2 receives a gradient that nobody needs soon; 3 is a gradient that reads 0,
    which runs again; 4 sends what 1 made: ahead of that, but behind what is received."""
    kernels = Kernels(
        name=tuple(f"a/b/{index}" for index in range(5)),
        layer=np.zeros(5, dtype=np.int64),
        cell=("",) * 5,
        primitive=("Cast", "Add", "Receive", "Mul", "Send"),
        stream=np.array([0, 0, 5, 0, 5]),
        backward=np.array([False, False, True, True, False]),
        passing=np.array([0, 0, -1, -1, -1]),
        before=np.arange(6),
    )
    found = of_kernels(kernels, [(0, 3), (1, 4), (2, 3)])
    flagged = np.arange(5) == 0
    rows = flagged[found.reads.face] & kernels.backward[found.reads.kernel]
    none = np.full(len(rows), -1, dtype=np.int64)
    program = recompute(found, none, flagged, rows, np.full(5, -1, dtype=np.int64))
    assert program.where[2] < program.where[4]
    moved = sent_ahead(found, replace(program, where=np.array([0, 1, 6, 7, 9]) * TICKS, inserted=np.array([5 * TICKS])))
    assert moved.where[2] < moved.where[4]
    assert sorted(moved.where[[2, 4]].tolist()) == [5 * TICKS - TURN, 6 * TICKS]


def test_kernels_that_change_places_take_their_reads_with_them() -> None:
    uses, nothing = np.zeros(4, dtype=np.int64), np.zeros(0, dtype=np.int64)
    program = StrategyProgram(
        where=np.array([10, 20, 30]),
        block=uses,
        position=np.array([10, 20, 30, 20]),
        until=np.array([10, 20, 30, 20]),
        face=uses,
        site=uses,
        reader=uses,
        again=np.zeros(4, dtype=np.bool_),
        origin=nothing,
        born=nothing,
        copies=nothing,
        inserted=nothing,
    )
    moved = program.moved({0: 20, 1: 10})
    assert moved.where.tolist() == [20, 10, 30]
    assert moved.position.tolist() == [20, 10, 30, 10]
