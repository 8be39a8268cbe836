"""What kernels are estimated to take: families, what they touch, floors, fits, ranges, and a public profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log2
from pathlib import Path

import numpy as np
import pytest

from swapconf.profile import kernel_details
from swapconf.timing import fit, hardware
from swapconf.timing.cost import FigureOrigin, Fit, Terms
from swapconf.timing.costing import Signature, Workload, costs
from swapconf.timing.families import FAMILIES, family_of, measured_terms
from swapconf.timing.measurements import MeasuredKernel
from swapconf.trace.trace import Tensor
from swapconf.trace.work import FLASH, Attention, attention_of, work
from tests.helpers import CORPUS

CARD = hardware.load("ascend_910b2")
# a public kernel_details.csv beside the corpus, see docs/evidence/kernel-times.md
PUBLIC = CORPUS.parent / "facts" / "ascend" / "kernel_details.csv" if CORPUS is not None else None


def half(*shape: int) -> Tensor:
    return Tensor("Float16", shape)


def time_us(primitive: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> float:
    load = Workload(
        names=("x",), signatures=(Signature(primitive, inputs, outputs),), index=np.zeros(1, dtype=np.int64)
    )
    return float(costs(load, CARD).duration_us[0])


@pytest.mark.parametrize(
    ("primitive", "inputs", "outputs", "touched"),
    [
        ("ZerosLike", (half(100, 10),), (half(100, 10),), 2000),
        ("StridedSlice", (half(100, 10),), (half(5, 10),), 200),
        ("Gather", (half(100, 10), Tensor("Int32", (3,))), (half(3, 10),), 132),
        ("Gather", (half(2, 10), Tensor("Int32", (9,))), (half(9, 10),), 40 + 36 + 180),
        ("Assign", (half(8, 8), half(8, 8)), (half(8, 8),), 256),
        ("Mul", (half(8, 8), half(8)), (half(8, 8),), 272),
    ],
)
def test_only_what_is_touched_counts(
    primitive: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], touched: int
) -> None:
    assert work(primitive, inputs, outputs).memory_bytes == touched


@pytest.mark.parametrize(
    ("primitive", "family"),
    [
        ("MatMul", "matmul"),
        ("MatMulV3", "matmul"),
        ("BatchMatMulV2", "batch_matmul"),
        ("GroupedMatmulV4", "grouped_matmul"),
        ("ReduceSumD", "reduction"),
        ("LayerNormV3", "norm"),
        ("RmsNormGrad", "norm_grad"),
        ("ApplyAdamW", "optimizer"),
        ("AsStrided", "move"),
        ("aclnnSoftmaxV2", "softmax"),
        ("Addcmul", "elementwise"),
        ("NeverHeardOf", "elementwise"),
    ],
)
def test_types_of_the_device_and_primitives_have_a_family(primitive: str, family: str) -> None:
    assert family_of(primitive) == family


def test_a_causal_mask_is_another_family() -> None:
    assert family_of(FLASH, Attention(layout=0, is_causal=True)) == "flash_causal"
    assert family_of(FLASH, Attention(layout=0, is_causal=False)) == family_of(FLASH) == "flash"
    mask = Tensor("Bool", (2048, 2048))
    assert attention_of(FLASH, (half(4096, 2, 512), mask)) == Attention(layout=2, is_causal=True)
    assert attention_of(FLASH, (half(2, 4096, 512),)) == Attention(layout=0, is_causal=False)
    assert attention_of("Add", (half(2),)) is None


@pytest.mark.parametrize(
    ("primitive", "dtype", "family"),
    [
        ("Cast", "UInt64", "ai_cpu"),
        ("Add", "Float64", "ai_cpu"),
        ("Cast", "Int64", "elementwise"),
        ("Slice", "Float64", "move"),
    ],
)
def test_numbers_that_vector_cores_do_not_know_go_to_the_ai_cpu(primitive: str, dtype: str, family: str) -> None:
    tensors = (Tensor("Int32", ()), Tensor(dtype, ()))
    assert family_of(primitive, None, tensors) == family
    took = time_us(primitive, tensors[:1], tensors[1:])
    assert (took > 50) == (family == "ai_cpu")


def test_every_family_has_a_fit_with_a_source_and_a_range_around_it() -> None:
    assert set(CARD.fits) == set(FAMILIES)
    for fitted in CARD.fits.values():
        assert fitted.low < 1 < fitted.high
        assert len(fitted.source) > 10
        assert not fitted.is_own
        assert fitted.matrix < 1.1


def test_the_least_kernel_takes_a_floor_and_a_large_one_its_rate() -> None:
    scalar = time_us("Add", (half(), half()), (half(),))
    assert 0.5 < scalar < 3
    tokens = half(8192, 8192)
    large = time_us("Add", (tokens, tokens), (tokens,))
    assert 3 * 2 * 8192**2 / 1.6e6 < large < 3 * 2 * 8192**2 / 1.0e6
    assert time_us("MatMul", (half(16, 16), half(16, 16)), (half(16, 16),)) > scalar


def test_flat_tensors_come_from_memory_and_others_from_the_cache() -> None:
    flat, square = half(4096 * 4096), half(4096, 4096)
    assert time_us("Exp", (flat,), (flat,)) > 1.3 * time_us("Exp", (square,), (square,))


def test_norms_take_longer_than_element_wise_kernels_of_the_same_bytes() -> None:
    tokens = half(4096, 12288)
    assert time_us("LayerNorm", (tokens,), (tokens,)) > 1.5 * time_us("Exp", (tokens,), (tokens,))


def test_kernels_of_a_family_are_fast_or_slow_together_and_families_by_themselves() -> None:
    tokens = half(4096, 4096)
    alike = Signature("Exp", (tokens,), (tokens,))
    other = Signature("MatMul", (tokens, tokens), (tokens,))
    index = np.array([0, 0, 1])
    found = costs(Workload(names=("a", "b", "c"), signatures=(alike, other), index=index), CARD)
    one, two = found.of(np.array([0])), found.of(np.array([0, 1]))
    assert one.range_of(1.0) == pytest.approx(two.range_of(1.0))
    low, high = found.range_of(float(found.duration_us.sum()))
    assert found.at(0).sum() < low < found.duration_us.sum() < high < found.at(1).sum()
    assert found.known(5.0).high_us == found.range_of(5.0)[1]
    assert found.of(np.array([], dtype=np.int64)).range_of(0.0) == (0.0, 0.0)


def kernel(kind: str, us: float, *shape: int) -> MeasuredKernel:
    tensor = half(*shape)
    return MeasuredKernel(kernel="", device_name="", type=kind, inputs=(tensor,), outputs=(tensor,), duration_us=us)


def test_a_fit_finds_what_made_the_kernels() -> None:
    true = replace(CARD.fits["elementwise"], floor_us=2.0, spread_us=0.0, full_us=5.0, cached=1.2, memory=0.5)
    shapes = [(2**exponent, 64) for exponent in range(3, 20)] + [(2**exponent,) for exponent in range(16, 29)]
    kernels = []
    for shape in shapes:
        known = measured_terms(kernel("Exp", 1.0, *shape), CARD)
        assert known is not None
        kernels.append(kernel("Exp", true.time_us(known[1]), *shape))
    found = fit.fits(fit.samples(kernels, CARD), CARD.fits, "mine")["elementwise"]
    assert (found.floor_us, found.full_us) == pytest.approx((2.0, 5.0), rel=0.1)
    assert (found.cached, found.memory) == pytest.approx((1.2, 0.5), rel=0.05)
    assert (found.is_own, found.kernels, found.source) == (True, len(shapes), "mine")
    assert found.low > 0.8
    assert found.high < 1.2


def test_one_kernel_moves_a_fit_towards_it_and_leaves_a_wide_range() -> None:
    known = measured_terms(kernel("Exp", 1.0, 4096, 4096), CARD)
    assert known is not None
    slow = 3 * CARD.fits["elementwise"].time_us(known[1])
    found = fit.fits(fit.samples([kernel("Exp", slow, 4096, 4096)], CARD), CARD.fits, "mine")
    assert set(found) == {"elementwise"}
    assert found["elementwise"].time_us(known[1]) == pytest.approx(slow, rel=0.05)
    assert found["elementwise"].high > 1.4


@pytest.mark.parametrize("family", ["elementwise", "optimizer", "transpose"])
def test_long_kernels_tell_of_rates_and_nothing_of_what_short_ones_take(family: str) -> None:
    """Long ones were measured to a thousandth, which is more microseconds than a short one takes."""
    known = CARD.fits[family]
    long = [Terms(spread=5.585, full=1.0, memory_us=us) for us in (900.0, 1100.0, 1200.0, 1500.0)]
    noise = (0.997, 1.002, 1.003, 0.998)
    seen = [
        fit.Sample(family, terms, 1.3 * error * known.time_us(terms)) for terms, error in zip(long, noise, strict=True)
    ]
    found = fit.fits(seen, CARD.fits, "mine")[family]
    assert found.memory == pytest.approx(known.memory / 1.3, rel=0.05)
    for cores in (1, 4, 12, 47):
        short = Terms(spread=log2(cores))
        assert found.time_us(short) == pytest.approx(known.time_us(short), rel=0.25)


def test_collectives_views_and_kernels_without_shapes_are_not_fitted() -> None:
    rows = [kernel("hcom_allReduce_", 10.0, 8), kernel("Reshape", 1.0, 8), replace(kernel("Add", 1.0, 8), inputs=())]
    assert fit.samples(rows, CARD) == ()


def test_no_shape_is_in_both_halves() -> None:
    one, two = fit.halves([kernel("Exp", us, size) for us in (1.0, 2.0) for size in range(1, 40)])
    assert one
    assert two
    assert {row.inputs for row in one}.isdisjoint({row.inputs for row in two})


def test_a_scalar_is_priced_though_its_shape_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_text(
        "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
        'Square1,Square,1.2,"""""",FLOAT,"""""",FLOAT\n'
    )
    [row] = kernel_details.read(path)
    assert row.inputs == (Tensor("Float32", ()),)
    known = measured_terms(row, CARD)
    assert known is not None
    assert (known[0], known[1].full, known[1].spread) == ("elementwise", 0.0, 0.0)


def test_what_ran_on_the_ai_cpu_is_no_kernel_of_a_vector_core(tmp_path: Path) -> None:
    path = tmp_path / "op_summary.csv"
    path.write_text(
        "Op Name,OP Type,Task Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
        'a,Mul,AI_CPU,900,"8;8",FLOAT;FLOAT,"8",FLOAT\n'
        'b,Mul,AI_VECTOR_CORE,1.2,"8;8",FLOAT;FLOAT,"8",FLOAT\n'
    )
    rows = kernel_details.read_summary(path)
    assert [row.core for row in rows] == ["AI_CPU", "AI_VECTOR_CORE"]
    assert [sample.family for sample in fit.samples(rows, CARD)] == ["ai_cpu", "elementwise"]
    own = fit.fits(fit.samples(rows, CARD), CARD.fits, "mine")
    assert own["ai_cpu"].floor_us > 100 * own["elementwise"].floor_us


def test_a_fit_of_ones_own_makes_times_calibrated() -> None:
    own: Mapping[str, Fit] = {"elementwise": replace(CARD.fits["elementwise"], floor_us=50.0, is_own=True)}
    card = replace(CARD, fits={**CARD.fits, **own})
    load = Workload(
        names=("x",), signatures=(Signature("Add", (half(8),), (half(8),)),), index=np.zeros(1, dtype=np.int64)
    )
    assert costs(load, card).share(FigureOrigin.CALIBRATED) == 1.0
    assert costs(load, CARD).share(FigureOrigin.ESTIMATED) == 1.0


@pytest.mark.skipif(PUBLIC is None or not PUBLIC.exists(), reason="SWAPCONF_CORPUS is not set")
def test_kernels_of_a_public_profile_take_what_is_estimated() -> None:
    card = hardware.load("ascend_910b1")
    found = fit.samples(kernel_details.read(str(PUBLIC)), card)
    ratio, us = fit.ratios(found, card.fits), np.array([item.us for item in found])
    error = np.abs(ratio - 1)
    assert np.median(error) <= 0.10
    assert np.quantile(error, 0.9) <= 0.35
    assert abs((ratio * us).sum() / us.sum() - 1) <= 0.05
    low, high = (np.array([getattr(card.fits[item.family], side) for item in found]) for side in ("low", "high"))
    assert ((low <= 1 / ratio) & (1 / ratio <= high)).mean() > 0.85
