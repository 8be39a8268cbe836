"""What a step is made of, where the program has fewer micro-batches than the step, and what runs beside computation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.timing.cost import Costs
from swapconf.timing.costing import COMMON_GROUPS, EXCHANGES
from swapconf.timing.joint import joint_replay
from swapconf.timing.parts import EXPOSED_MOST, Shapes, StepParts, difference_us, parts
from swapconf.timing.timing import COLLECTIVE, COMPUTE, Program, Waits

PRODUCTS, EXCHANGED = COMMON_GROUPS.index("matmul"), COMMON_GROUPS.index(EXCHANGES)
SPREAD = ((0.9, 1.1),) * len(COMMON_GROUPS)
NEVER = np.iinfo(np.int64).max
# gathered once; a product of each micro-batch, of which the second waits for its own exchange; gradients at the end
NAMES = ("AllGather-op0", "MatMul-op1", "AllReduce-op2", "Gradients/network-Cell/MatMul-op3", "AllReduce-op4")
KINDS = (COLLECTIVE, COMPUTE, COLLECTIVE, COMPUTE, COLLECTIVE)
US = (3.0, 10.0, 4.0, 20.0, 5.0)
WAITS = ((), (), (1,), (2,), (3,))


def step(times: tuple[float, ...] = (1.0,) * 5, names: tuple[str, ...] = NAMES) -> StepParts:
    kind = np.array(KINDS, dtype=np.uint8)
    program = Program(
        names=tuple(f"Default/{name}" if not name.startswith("Grad") else name for name in names),
        stream=np.where(kind == COMPUTE, 0, 1).astype(np.int32),
        kind=kind,
        waits=Waits.of_rows(WAITS),
        event=np.arange(5),
        freed=np.full(5, NEVER),
    )
    us = np.array(US)
    costs = Costs(
        duration_us=us,
        origin=np.zeros(5, dtype=np.uint8),
        group=np.where(kind == COMPUTE, PRODUCTS, EXCHANGED).astype(np.uint8),
        spread=SPREAD,
    )
    joint = joint_replay([0], [program], [us], ())
    often = np.array(times)
    shapes = Shapes(index=np.arange(5), known=names)
    return parts(joint, [costs], [often], [shapes], float((us * often).sum()) - US[0] * times[0])


def test_what_a_program_has_once_counts_once_and_a_round_as_often_as_it_runs() -> None:
    found = step((1, 100, 100, 100, 1))
    assert found.collectives_us == pytest.approx(4 * 100 + 5)
    assert found.gradients_us == pytest.approx(5)
    assert found.of_group_us[PRODUCTS] == pytest.approx(100 * 30)
    assert found.of_group_us[EXCHANGED] == pytest.approx(100 * 4 + 5)


def test_what_is_gathered_while_the_card_computes_runs_beside() -> None:
    assert step().beside_us == pytest.approx(3)
    assert step((7, 1, 1, 1, 1)).beside_us == pytest.approx(7 * 3)


def test_a_message_is_nothing_that_runs_beside() -> None:
    assert step(names=("Send-op0", *NAMES[1:])).beside_us == 0


def test_what_runs_beside_may_be_waited_for() -> None:
    one = step()
    more = replace(one, beside_us=one.beside_us + 8)
    assert one.range_us[1] < more.range_us[1]
    assert one.range_us[0] == more.range_us[0]
    between, low, high = difference_us(one, more)
    assert between == low == 0
    assert high == pytest.approx(EXPOSED_MOST * 8)
    assert difference_us(more, one)[1] == pytest.approx(-EXPOSED_MOST * 8)


def test_the_same_shapes_cancel_out_and_others_do_not() -> None:
    """As long in each family, and of another shape."""
    one = step()
    assert difference_us(one, step()) == (0, 0, 0)
    other = step(names=(*NAMES[:3], "Gradients/network-Cell/MatMul-op9", NAMES[4]))
    between, low, high = difference_us(one, other)
    assert between == 0
    assert high == -low == pytest.approx(0.1 * 20 * 2**0.5)
