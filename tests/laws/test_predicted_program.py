"""What holds of the step of every strategy, whatever it moves and runs again."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapconf.decide.strategy import Strategy
from swapconf.timing import hardware
from swapconf.timing.cost import Host, Machine
from swapconf.timing.timeline import replay, serial
from swapconf.timing.timing import TO_DEVICE, TO_HOST, Floats, KernelKind, Program
from swapconf.trace.trace import Trace
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import prediction, schedule
from swapconf.whatif.prediction import Prediction
from swapconf.whatif.prepare import prepare
from swapconf.whatif.step_time import Clock, TimedStep, baseline_time, clock, point_time, time
from tests.helpers import EXAMPLE, golden, strategy_of

SWAPPED = (
    r"attention\.wq",
    r"attention\.wv",
    "attention_norm",
    "ffn_norm",
    "add",
    r"attention\.flash_attention",
    r"feed_forward\.w1",
    r"feed_forward\.w3",
)
AGAIN = (r"attention\.wk", r"attention\.wo", r"feed_forward\.w2", "feed_forward")
swaps = st.lists(st.tuples(st.sampled_from(SWAPPED), st.integers(1, 300)), max_size=5, unique_by=lambda entry: entry[0])
recomputes = st.lists(st.sampled_from(AGAIN), max_size=2, unique=True)
Chosen = list[tuple[str, int]]


@cache
def trace() -> Trace:
    return golden("llama_l2_none")


@cache
def strategy(swapped: tuple[tuple[str, int], ...], again: tuple[str, ...]) -> Strategy:
    listed = ", ".join(
        f"{{op_name: '{name}', backward_prefetch: {prefetch}, layers: True}}" for name, prefetch in swapped
    )
    recompute = ", ".join(f"'{name}': [0, 1]" for name in again)
    return strategy_of(
        EXAMPLE,
        "model.model_config.num_layers=2",
        f"swap_config={{swap: True, op_swap: [{listed}]}}",
        f"recompute_config={{recompute: False, select_recompute: {{{recompute}}}}}",
    )


@cache
def prepared() -> PlacedBaseline:
    return placed(prepare(trace()), strategy((), ()).network)


@cache
def pace(bandwidth_gbps: float = float("inf")) -> Clock:
    machine = Machine(hardware=hardware.load("ascend_910b2"), host=Host(bandwidth_gbps=bandwidth_gbps))
    return clock(trace(), prepared().baseline, machine)


def free() -> Clock:
    """Copies take no time."""
    known, kernels = pace(), len(pace().step.program)
    lasting = np.where(np.arange(len(known.costs.duration_us)) < kernels, known.costs.duration_us, 0.0)
    return Clock(step=known.step, costs=replace(known.costs, duration_us=lasting))


def ask(swapped: Chosen, again: list[str], on: Clock) -> tuple[Prediction, TimedStep]:
    launched = schedule(prepared(), strategy(tuple(swapped), tuple(again)))
    found = prediction(prepared(), launched)
    return found, time(on, launched, found.moves)


def longest_path(program: Program, lasting: Floats) -> float:
    """By relaxation along all that must follow each other."""
    end, last = [0.0] * len(program), dict[int, int]()
    for kernel, waits in enumerate(program.waits):
        stream = int(program.stream[kernel])
        ahead = (*waits, *([last[stream]] if stream in last else []))
        end[kernel] = max((end[item] for item in ahead), default=0.0) + float(lasting[kernel])
        last[stream] = kernel
    return max(end)


@given(swaps, recomputes, st.sampled_from([1.0, 10.0, 50.0]))
def test_the_step_is_the_longest_path_and_no_shorter_than_any_stream(
    swapped: Chosen, again: list[str], bandwidth_gbps: float
) -> None:
    _, timed = ask(swapped, again, pace(bandwidth_gbps))
    line, waits = timed.timeline, timed.timeline.program.waits
    assert line.step_us == pytest.approx(longest_path(line.program, timed.costs.duration_us), rel=1e-9)
    assert (line.start_us[waits.waiter] >= line.end_us[waits.awaited]).all()
    path = list(line.critical_path)
    assert timed.costs.duration_us[path].sum() == pytest.approx(line.step_us, rel=1e-9)
    for stream in set(line.program.stream.tolist()):
        assert line.busy_us(stream) <= line.step_us * (1 + 1e-9)


@given(swaps, recomputes)
def test_nothing_is_shorter_than_what_it_launches_and_without_overlap_it_is_the_sum(
    swapped: Chosen, again: list[str]
) -> None:
    found, timed = ask(swapped, again, pace())
    program, lasting = timed.timeline.program, timed.costs.duration_us
    assert replay(serial(program), lasting).step_us == pytest.approx(lasting.sum())
    assert (program.kind == TO_HOST).sum() == len(found.moves)
    assert (program.kind == TO_DEVICE).sum() == (~found.moves.unread).sum()
    assert timed.timeline.busy_us(program.main_stream) >= baseline_time(pace()).timeline.busy_us(0) * (1 - 1e-9)


@given(swaps)
def test_copies_that_take_no_time_cost_nothing(swapped: Chosen) -> None:
    """The trace has one micro-batch, so that swap leaves all other kernels, if some of the loss earlier."""
    _, timed = ask(swapped, [], free())
    program = timed.timeline.program
    assert timed.timeline.exposed_of(KernelKind.TO_HOST) == timed.timeline.exposed_of(KernelKind.TO_DEVICE) == 0
    assert timed.timeline.step_us == pytest.approx(baseline_time(pace()).timeline.step_us, rel=1e-9)
    assert sorted(name for name, move in zip(program.names, timed.move, strict=True) if move < 0) == sorted(
        pace().step.program.names
    )


NEAR = 15  # kernels; of the gradients of a layer of this trace there are more


@given(swaps.filter(bool), st.integers(1, NEAR), st.integers(1, NEAR), st.sampled_from([2.0, 30.0]))
def test_a_larger_prefetch_never_makes_a_copy_back_start_later(
    swapped: Chosen, one: int, other: int, bandwidth_gbps: float
) -> None:
    """As long as no copy back is held up by its own copy to the host, nor by another one that it came before, and none
    reaches the end of the forward pass, where MindSpore orders them by what they are tied to."""
    fewer, more = sorted((one, other))
    late, early = (
        ask([(name, prefetch) for name, _ in swapped], [], pace(bandwidth_gbps)) for prefetch in (fewer, more)
    )
    if (early[0].moves.returned - early[0].moves.copied < 2).any():
        return
    assert (early[0].moves.returned <= late[0].moves.returned).all()
    sooner, later = starts(*early), starts(*late)
    if (np.argsort(sooner, kind="stable") == np.argsort(later, kind="stable")).all():
        assert (sooner <= later + 1e-6).all()


def starts(found: Prediction, timed: TimedStep) -> Floats:
    """By move, when its copy back starts."""
    at = np.zeros(len(found.moves))
    back = np.flatnonzero(timed.timeline.program.kind == TO_DEVICE)
    at[timed.move[back]] = timed.timeline.start_us[back]
    return at


@given(swaps, recomputes)
def test_what_layers_wait_for_is_what_the_step_waits_for(swapped: Chosen, again: list[str]) -> None:
    found, timed = ask(swapped, again, pace(5.0))
    told = point_time(timed, found.moves)
    assert sum(layer.late_us for layer in told.layers) == pytest.approx(told.exposed_copy_us)
    twice = found.moves.size_bytes[found.moves.twice].sum() // found.steps
    assert sum(layer.twice_bytes for layer in told.layers) == twice
