"""Calibrating: nothing is taken that tells unseen shapes worse, what was seen comes out as its median, and twice is
once."""

from __future__ import annotations

import json
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.timing import hardware
from swapconf.timing.calibration import Calibration, calibrated
from swapconf.timing.cost import FigureOrigin, Hardware
from swapconf.timing.costing import Signature, Workload, costs
from swapconf.timing.held_out import Verdict
from swapconf.timing.measurements import MeasuredKernel
from swapconf.trace.trace import Tensor
from tests.helpers import scratch

CARD = hardware.load("ascend_910b2")
SHAPES = st.lists(st.integers(1, 4096), min_size=0, max_size=3).map(tuple)
TYPES = st.sampled_from(["Exp", "Add", "MatMulV3", "MatMulV2", "RmsNorm", "Cast", "FlashAttentionScore", "ReduceSum"])


@st.composite
def kernels(draw: st.DrawFn) -> MeasuredKernel:
    dtype = draw(st.sampled_from(["Float16", "Float32", "BFloat16"]))
    inputs, outputs = (
        tuple(Tensor(dtype, shape) for shape in draw(st.lists(SHAPES, min_size=1, max_size=most))) for most in (3, 2)
    )
    nanoseconds = draw(st.integers(100, 10**7))
    return MeasuredKernel(
        kernel="", device_name="", type=draw(TYPES), inputs=inputs, outputs=outputs, duration_us=nanoseconds / 1000
    )


@st.composite
def profiles(draw: st.DrawFn) -> list[MeasuredKernel]:
    """Some shapes, launched several times; of one type they may be off by a common factor."""
    found = []
    for kernel in draw(st.lists(kernels(), min_size=1, max_size=12)):
        for share in draw(st.lists(st.sampled_from([1.0, 1.0, 1.02, 0.9, 3.0]), min_size=1, max_size=4)):
            us = max(round(kernel.duration_us * share, 3), 0.1)
            found.append(
                MeasuredKernel(
                    kernel="",
                    device_name="",
                    type=kernel.type,
                    inputs=kernel.inputs,
                    outputs=kernel.outputs,
                    duration_us=us,
                )
            )
    return found


def made(profile: list[MeasuredKernel], card: Hardware = CARD) -> Calibration:
    return calibrated(profile, (), card, "a law")


def written(found: Calibration) -> Hardware:
    """As a file keeps it."""
    file = scratch("calibration") / "mine.json"
    data = hardware.as_data("mine", found.figures, found.fits, found.card, found.kinds, found.seen)
    file.write_text(json.dumps(data))
    return hardware.load(str(file))


def known(card: Hardware, kernel: MeasuredKernel) -> tuple[float, FigureOrigin]:
    signature = Signature(kernel.type, kernel.inputs, kernel.outputs)
    one = costs(Workload(names=("x",), signatures=(signature,), index=np.zeros(1, dtype=np.int64)), card)
    [origin] = one.shares()
    return float(one.duration_us[0]), origin


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_no_fit_is_taken_that_tells_shapes_that_it_did_not_see_worse(profile: list[MeasuredKernel]) -> None:
    found = made(profile)
    assert set(found.kinds) == {kind for kind, trial in found.trials.items() if trial.verdict is Verdict.TAKEN}
    for kind in found.kinds:
        before, after = found.trials[kind].held_before, found.trials[kind].held_after
        assert before is not None
        assert after is not None
        assert not after.is_worse_than(before)
        assert after.mean < before.mean


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_a_shape_that_was_seen_takes_the_median_of_its_launches(profile: list[MeasuredKernel]) -> None:
    card = written(made(profile))
    times: dict[tuple[object, ...], list[MeasuredKernel]] = {}
    for kernel in profile:
        name = kernel.type.rstrip("0123456789").removesuffix("V")
        times.setdefault((name, kernel.inputs, kernel.outputs), []).append(kernel)
    for alike in times.values():
        us, origin = known(card, alike[0])
        assert us == pytest.approx(median(kernel.duration_us for kernel in alike), rel=1e-6)
        assert origin is FigureOrigin.MEASURED


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_what_is_calibrated_twice_is_as_if_once(profile: list[MeasuredKernel]) -> None:
    once = made(profile)
    twice = made(profile, once.on(CARD))
    assert (twice.figures, twice.card, twice.fits, twice.kinds, twice.seen) == (
        once.figures,
        once.card,
        once.fits,
        once.kinds,
        once.seen,
    )


@given(profiles(), profiles())
@settings(max_examples=40, deadline=None)
def test_what_an_earlier_profile_measured_is_kept(first: list[MeasuredKernel], second: list[MeasuredKernel]) -> None:
    before = made(first)
    after = made(second, before.on(CARD))
    assert {shape.key for shape in after.seen.shapes} >= {shape.key for shape in before.seen.shapes}
    assert set(after.kinds) >= set(before.kinds)
