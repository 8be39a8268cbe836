"""Micro-batches in the marks of a PyNative run: each goes back through what it went forward through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from swapconf.dryrun.pynative.hyper_parallel_stand_in.schedules import (
    Act,
    Step,
    all_forward_first,
    interleaved,
    one_forward_one_backward,
)
from swapconf.trace.marked_passes import Pass, Passes
from swapconf.trace.marks import NO_LAYER, Mark, Moment
from swapconf.whatif.pynative.intervals import steps

LAYERS = {0: (0, 1), 1: (2, 3), 2: (4,), 3: (5, 6)}  # of each stage
MICROS = 4
ORDERS = {
    "1F1B, first": one_forward_one_backward(0, 2, MICROS),
    "1F1B, last": one_forward_one_backward(1, 2, MICROS),
    "GPipe": all_forward_first(0, 2, MICROS),
    "interleaved": interleaved(0, 2, 2, MICROS),
}


def marks_of(order: Sequence[Step]) -> tuple[list[Mark], dict[tuple[int, int], tuple[int, int]]]:
    """The marks of two steps, and by stage and micro-batch, the first step's counted before those of the second, the
    events at which its forward and its backward pass begin."""
    events = count(1)
    marks: list[Mark] = []
    begins: dict[tuple[int, int], tuple[int, int]] = {}

    def mark(moment: Moment, layer: int = NO_LAYER) -> int:
        marks.append(Mark(next(events), moment, layer))
        return marks[-1].event

    for number in range(2):
        mark(Moment.STEP_BEGINS)
        for step in order:
            micro = number * MICROS + step.micro
            if step.act is Act.FORWARD:
                begins[step.stage, micro] = (mark(Moment.MODEL_BEGINS), 0)
                for layer in LAYERS[step.stage]:
                    mark(Moment.FORWARD_BEGINS, layer)
                    mark(Moment.FORWARD_ENDS, layer)
                mark(Moment.MODEL_ENDS)
            elif step.act is Act.BACKWARD:
                begins[step.stage, micro] = (begins[step.stage, micro][0], mark(Moment.BACKWARD_PASS_BEGINS))
                for layer in reversed(LAYERS[step.stage]):
                    mark(Moment.BACKWARD_BEGINS, layer)
                    mark(Moment.BACKWARD_ENDS, layer)
                mark(Moment.BACKWARD_PASS_ENDS)
        mark(Moment.OPTIMIZER_BEGINS)
        mark(Moment.STEP_ENDS)
    return marks, begins


@pytest.mark.parametrize("name", ORDERS)
def test_each_micro_batch_of_each_stage_goes_back_with_what_it_went_forward_with(name: str) -> None:
    order = ORDERS[name]
    marks, begins = marks_of(order)
    found = {(one.passes[0].start, one.backward): one for one in steps(marks)}
    assert len(found) == len(begins) == 2 * MICROS * len({step.stage for step in order})
    for (stage, micro), (forward, backward) in begins.items():
        one = found[forward + 1, backward]
        assert tuple(part.layer for part in one.passes) == LAYERS[stage], (stage, micro)
        assert one.start < forward < one.passes[-1].end < one.backward < one.end
        assert [part.turn for part in one.passes] == [one.turns[part.layer] for part in one.passes]
        assert all(part.turn is not None and backward < part.turn < one.end for part in one.passes)


@pytest.mark.parametrize("name", ORDERS)
def test_what_a_stage_receives_lies_between_its_forward_pass_and_what_ran_before(name: str) -> None:
    marks, _ = marks_of(ORDERS[name])
    boundary = (Moment.STEP_BEGINS, Moment.MODEL_ENDS, Moment.BACKWARD_PASS_ENDS)
    ends = [mark.event for mark in marks if mark.moment in boundary]
    for one in steps(marks):
        assert one.start == max(event for event in ends if event < one.passes[0].start)


def test_a_micro_batch_that_goes_forward_behind_a_backward_pass_is_no_recompute() -> None:
    marks, _ = marks_of(ORDERS["1F1B, first"])
    passes = Passes(marks)
    assert not any(stretch.what is Pass.RECOMPUTED for stretch in passes.stretches)
    forward = [stretch for stretch in passes.stretches if stretch.layer == 0 and stretch.what is Pass.FORWARD]
    assert len(forward) == 2 * MICROS


def of_one_stage(batches: int) -> Iterator[Mark]:
    """As one rank that has all layers: marks of a run before there were any of models."""
    events = count(1)
    yield Mark(next(events), Moment.STEP_BEGINS, NO_LAYER)
    for _ in range(batches):
        for moment in (Moment.FORWARD_BEGINS, Moment.FORWARD_ENDS):
            yield Mark(next(events), moment, 0)
        yield Mark(next(events), Moment.BACKWARD_PASS_BEGINS, NO_LAYER)
        for moment in (Moment.BACKWARD_BEGINS, Moment.BACKWARD_ENDS):
            yield Mark(next(events), moment, 0)
        yield Mark(next(events), Moment.BACKWARD_PASS_ENDS, NO_LAYER)


def test_micro_batches_that_are_accumulated_are_told_without_marks_of_the_model() -> None:
    found = steps(list(of_one_stage(3)))
    assert [one.start for one in found] == [1, *(one.end for one in found[:-1])]
    assert [one.layer(0) is not None for one in found] == [True] * 3
