"""What two small models tell of a larger one that is cut alike, on recorded traces."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from swapconf.dryrun.growing.whole import Run, whole
from swapconf.layout.bounds import least_us
from swapconf.layout.facts import Facts, facts_of_two
from swapconf.layout.layout import Layout
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.timing.costing import costs, workload
from swapconf.timing.program import program
from swapconf.timing.timeline import replay
from swapconf.trace.trace import Trace
from swapconf.whatif.evaluation import RankStep
from tests.helpers import TRACES, packed

MACHINE = Machine(hardware=hardware.load("ascend_910b2"))
LAYERS, MICRO_BATCHES = 16, 2


def layout(layers: int, micro_batches: int = MICRO_BATCHES) -> Layout:
    return Layout(data=2, tensors=1, stages=1, micro_batches=micro_batches, deal=((layers,),))


def recorded(layers: int) -> Trace:
    return packed(TRACES / "growing" / f"layers_{layers}")


def step(trace: Trace) -> RankStep:
    load = workload(trace)
    taken_us = costs(load, MACHINE.hardware).duration_us
    return RankStep(program=program(trace), load=load, duration_us=taken_us, micro_batches=0)


def told() -> Facts:
    small: list[Any] = [
        SimpleNamespace(steps=(step(trace),), traces=(trace,), machine=MACHINE) for trace in map(recorded, (4, 6))
    ]
    return facts_of_two(layout(4), small[0], layout(6), small[1])


def true_us() -> float:
    kept = {size: [*range(size // 2), *range(LAYERS - size // 2, LAYERS)] for size in (4, 6)}
    small, big = (Run(trace=recorded(size), kept=kept[size], first=0, size=size) for size in (4, 6))
    large = step(whole(small, big, range(LAYERS), LAYERS))
    return replay(large.program, large.duration_us).step_us


def test_two_small_models_tell_nearly_what_a_large_one_takes_and_never_more() -> None:
    bound_us, step_us = least_us(layout(LAYERS), [told()], MACHINE.hardware), true_us()
    assert 0.9 * step_us < bound_us <= step_us


@pytest.mark.parametrize("other", [{"data": 4}, {"micro_batches": 1}, {"stages": 2, "deal": ((8, 8),)}])
def test_what_is_waited_for_once_holds_only_where_steps_end_alike(other: dict[str, Any]) -> None:
    facts, unlike = told(), replace(layout(LAYERS), **other)
    less = replace(facts, whole=type(facts.whole)())
    assert facts.whole.behind_us > 0
    assert least_us(unlike, [facts], MACHINE.hardware) == least_us(unlike, [less], MACHINE.hardware)


def test_a_further_micro_batch_takes_what_comes_between_two_of_them() -> None:
    facts = told()
    two, four = (least_us(layout(LAYERS, count), [facts], MACHINE.hardware) for count in (2, 4))
    each_us = max(facts.layer.us, facts.whole.round_us)
    assert four - two == pytest.approx(2 * (LAYERS * each_us + facts.outside.us))


def test_what_the_names_put_behind_the_last_backward_pass_is_no_more_than_its_rounds_leave() -> None:
    facts = told()
    micro_us = MICRO_BATCHES * max(facts.layer.us, facts.whole.round_us)
    late = facts.whole.behind_us + facts.whole.micro_us  # nothing of it is known to be a micro-batch's
    misnamed = replace(facts, whole=replace(facts.whole, micro_us=0.0, behind_us=late))
    rest_us = max(0.0, late - micro_us)
    assert late > rest_us > 0
    bound_us = least_us(layout(LAYERS), [misnamed], MACHINE.hardware)
    assert bound_us == pytest.approx(LAYERS * rest_us + LAYERS * micro_us + MICRO_BATCHES * facts.outside.us)
    assert bound_us <= true_us()
