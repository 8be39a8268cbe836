"""Which other layers by stage are tried beside those that a layout has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swapconf.layout.layout import Layout
from swapconf.layout.legal import BadWish, Degree, Wishes, of_stages
from swapconf.layout.shifts import shifts
from swapconf.plan.modes import KEEP, uniform
from swapconf.whatif.layer_share import LayerShare
from tests.unit.planning import MadeUp, made_up_judge

STAGED = Layout(data=2, tensors=1, stages=4, batch=1, micro_batches=4, deal=((3, 1, 2, 2),))


class Busy(MadeUp):
    """Whose stages are busy as long as this, 10 us of it for each layer."""

    busy: tuple[float, ...] = ()

    def layer_shares(self, machine: int = 0) -> tuple[LayerShare, ...]:
        return tuple(LayerShare(num_layers=2, layer_bytes=300.0, layer_us=10.0, busy_us=us) for us in self.busy)


def busy(*us: float) -> Busy:
    made = Busy(len(us))
    made.busy = us
    return made


def test_a_layer_of_the_slowest_stage_is_tried_where_it_makes_no_stage_as_slow() -> None:
    judge = made_up_judge(8, 4, evaluator=busy(100, 80, 95, 120))
    found = shifts(judge)
    assert set(found[1:]) <= {((3, 2, 2, 1),), ((2, 3, 2, 1),), ((2, 2, 3, 1),)}
    assert ((2, 3, 2, 1),) in found
    assert all(sum(counts) == 8 and min(counts) >= 1 for (counts,) in found)


def test_where_no_stage_is_slower_than_another_nothing_is_tried() -> None:
    assert shifts(made_up_judge(8, 4, evaluator=busy(100, 100, 100, 100))) == ()


def test_what_does_not_fit_gives_a_layer_to_whoever_takes_it() -> None:
    evaluator = busy(100, 100)
    judge = made_up_judge(4, 2, evaluator=evaluator)
    full = judge.pool_bytes(uniform(KEEP, judge.network))
    judge = made_up_judge(4, 2, evaluator=evaluator, budget_bytes=max(full) - 100)
    assert ((1, 3),) in shifts(judge)


def test_a_pipeline_of_one_stage_has_nothing_to_shift() -> None:
    assert shifts(made_up_judge(4, 1)) == ()


def test_the_layers_of_the_yaml_and_equal_ones_are_what_is_shifted_from() -> None:
    assert of_stages(STAGED, 8, Wishes()) == (STAGED, replace(STAGED, deal=((2, 2, 2, 2),)))
    even = replace(STAGED, deal=((2, 2, 2, 2),))
    assert of_stages(even, 8, Wishes()) == (even,)


@pytest.mark.parametrize(
    ("own", "cards", "asked", "why"),
    [
        (replace(STAGED, stages=1, data=8, deal=((8,),)), 8, Wishes(), "between the stages"),
        (replace(STAGED, deal=((1, 1, 1, 1), (1, 1, 1, 1))), 8, Wishes(), "without interleave"),
        (STAGED, 16, Wishes(), "has 8 cards"),
        (STAGED, 8, Wishes(fixed=frozenset({Degree.OFFSET})), "`offset` alone"),
        (STAGED, 8, Wishes(varied={Degree.BATCH: (1, 2)}), "`offset` alone"),
    ],
)
def test_what_leaves_nothing_to_shift_is_refused(own: Layout, cards: int, asked: Wishes, why: str) -> None:
    with pytest.raises(BadWish, match=why):
        of_stages(own, cards, asked)
