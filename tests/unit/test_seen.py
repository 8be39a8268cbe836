"""Shapes that a profile measured, found again for the kernels of a trace: as told, without what makes no difference,
flash attention in another layout, several kernels of the device for one primitive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.timing import hardware, hardware_shapes
from swapconf.timing.cost import FigureOrigin
from swapconf.timing.costing import Signature, Workload, costs
from swapconf.timing.measurements import Measured, MeasuredKernel
from swapconf.timing.seen import Match, Seen, seen_of
from swapconf.trace.trace import Tensor
from swapconf.trace.work import Attention
from swapconf.upstream.device_kernels import kernel_of, plain

CAUSAL = Attention(layout=1, is_causal=True)
MASK = Tensor("Bool", (2048, 2048))


def bf16(*shape: int) -> Tensor:
    return Tensor("BFloat16", shape)


def f32(*shape: int) -> Tensor:
    return Tensor("Float32", shape)


def i64(*shape: int) -> Tensor:
    return Tensor("Int64", shape)


def row(
    kind: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], us: float, kernel: str = "", device: str = ""
) -> MeasuredKernel:
    return MeasuredKernel(
        kernel=kernel, device_name=device or kind, type=kind, inputs=inputs, outputs=outputs, duration_us=us
    )


PRODUCT = ((bf16(4096, 1024), bf16(6144, 1024)), (bf16(4096, 6144),))
FLAGS = (Tensor("Bool", ()), Tensor("Bool", ()))


def test_a_shape_takes_the_median_of_its_launches() -> None:
    seen = seen_of([row("MatMulV3", *PRODUCT, us) for us in (240.0, 238.0, 500.0)])
    [shape] = seen.shapes
    assert (shape.us, shape.launches) == (240.0, 3)
    assert seen.match("MatMulV3", *PRODUCT) == Match(240.0, is_same=True)


@pytest.mark.parametrize(
    ("primitive", "inputs", "outputs"),
    [
        ("MatMul", (*PRODUCT[0], *FLAGS), PRODUCT[1]),
        ("MatMulExt", PRODUCT[0], PRODUCT[1]),
        ("Dense", PRODUCT[0], PRODUCT[1]),
        ("MatMul", (bf16(1, 4096, 1024), bf16(6144, 1024)), (bf16(1, 4096, 6144),)),
    ],
)
def test_a_product_of_a_trace_is_found_whatever_is_told_beside_its_matrices(
    primitive: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
) -> None:
    seen = seen_of([row("MatMulV3", *PRODUCT, 238.8)])
    assert seen.match(primitive, inputs, outputs) == Match(238.8, is_same=True)


@pytest.mark.parametrize(
    ("kind", "measured", "primitive", "asked"),
    [
        ("Cast", ((f32(64, 32),), (bf16(64, 32),)), "Cast", ((f32(64, 32), i64()), (bf16(64, 32),))),
        ("Add", ((bf16(64, 32),) * 2, (bf16(64, 32),)), "AddExt", ((bf16(64, 32),) * 2 + (i64(),), (bf16(64, 32),))),
        ("Swish", ((bf16(64, 32),), (bf16(64, 32),)), "SiLU", ((bf16(64, 1, 32),), (bf16(64, 1, 32),))),
        ("ReduceSum", ((f32(64, 32), i64(1)), (f32(64, 1),)), "SumExt", ((f32(64, 32), i64(1)), (f32(64, 1),))),
        ("GatherV2", ((f32(9, 2), i64(64), i64(1)), (f32(64, 2),)), "Embedding", ((i64(64), f32(9, 2)), (f32(64, 2),))),
        ("ConcatD", ((f32(64, 32),) * 2, (f32(64, 64),)), "Concat", ((f32(64, 32),) * 2 + (i64(),), (f32(64, 64),))),
        ("TensorMove", ((f32(64, 32),), (f32(64, 32),)), "Assign", ((f32(64, 32),) * 2, (f32(64, 32),))),
        ("Less", ((f32(64), f32()), (Tensor("Bool", (64,)),)), "Less", ((f32(64), f32()), (Tensor("UInt8", (64,)),))),
        ("Add", ((f32(), f32()), (f32(),)), "AddExt", ((f32(), f32(), i64()), (f32(),))),
    ],
)  # fmt: skip
def test_primitives_are_found_by_the_kernels_that_they_launch(
    kind: str,
    measured: tuple[tuple[Tensor, ...], tuple[Tensor, ...]],
    primitive: str,
    asked: tuple[tuple[Tensor, ...], tuple[Tensor, ...]],
) -> None:
    assert seen_of([row(kind, *measured, 7.0)]).match(primitive, *asked) == Match(7.0, is_same=True)


@pytest.mark.parametrize(
    ("primitive", "inputs", "outputs"),
    [
        ("MatMul", (bf16(4096, 1024), bf16(1024, 6144)), (bf16(4096, 6144),)),
        ("MatMul", (f32(4096, 1024), f32(6144, 1024)), (f32(4096, 6144),)),
        ("BatchMatMul", *PRODUCT),
        ("MatMul", (bf16(-1, 1024), bf16(6144, 1024)), (bf16(-1, 6144),)),
    ],
)
def test_other_shapes_types_and_kernels_are_not_found(
    primitive: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
) -> None:
    assert seen_of([row("MatMulV3", *PRODUCT, 238.8)]).match(primitive, inputs, outputs) is None


def test_what_is_read_from_the_same_tensor_is_told_apart_by_what_is_written() -> None:
    whole = (bf16(4096, 8, 512), i64(3), i64(3))
    seen = seen_of([row("Slice", whole, (bf16(4096, 8, 128),), 38.2), row("Slice", whole, (bf16(4096, 8, 256),), 30.2)])
    assert seen.match("Slice", whole, (bf16(4096, 8, 256),)) == Match(30.2, is_same=True)


def test_an_exact_shape_goes_before_one_that_makes_no_difference() -> None:
    one, other = ((bf16(64, 1, 32),), (bf16(64, 1, 32),)), ((bf16(64, 32),), (bf16(64, 32),))
    seen = seen_of([row("Exp", *one, 5.0), *[row("Exp", *other, 9.0)] * 3])
    assert seen.match("Exp", *one) == Match(5.0, is_same=True)
    assert seen.match("Exp", (bf16(1, 64, 32),), (bf16(1, 64, 32),)) == Match(9.0, is_same=True)


def attention(layout: str, us: float) -> MeasuredKernel:
    """16 heads of 128 over 4096 tokens, 8 of keys and values."""
    shapes = {"SBH": ((4096, 1, 2048), (4096, 1, 1024)), "BNSD": ((1, 16, 4096, 128), (1, 8, 4096, 128))}[layout]
    query, key = (bf16(*shape) for shape in shapes)
    rows = f32(1, 16, 4096, 8)
    return row("FlashAttentionScore", (query, key, key, MASK), (rows, rows, bf16(), query), us)


def test_flash_attention_is_found_in_another_layout_and_told_to_be_another_kernel() -> None:
    asked = attention("BNSD", 0.0)
    seen = seen_of([attention("SBH", 883.0)])
    full = (*asked.inputs[:3], Tensor("UInt8", (1, 1, 4096, 4096)))
    assert seen.match("FlashAttentionScore", full, asked.outputs, CAUSAL) == Match(883.0, is_same=False)
    unmasked = Attention(layout=1, is_causal=False)
    assert seen.match("FlashAttentionScore", full, asked.outputs, unmasked) is None
    assert seen.match("FlashAttentionScoreGrad", full, asked.outputs, CAUSAL) is None
    half = f32(1, 8, 4096, 8)
    assert seen.match("FlashAttentionScore", full, (half, half, *asked.outputs[2:]), CAUSAL) is None
    same = (*full[:3], MASK)
    exact = seen_of([attention("BNSD", 900.0)]).match("FlashAttentionScore", same, asked.outputs)
    assert exact == Match(900.0, is_same=True)


def test_one_kernel_stands_for_all_that_its_launch_ran() -> None:
    """A Cast of 3 us before each Mul; twice in two steps."""
    mixed, half = (f32(64, 32), bf16(64, 32)), (bf16(64, 32),)
    rows = [
        row("Cast", half, (f32(64, 32),), 3.0, "Default/net/Mul-op1", "aclnnMul_CastAiCore_Cast"),
        row("Mul", mixed, (f32(64, 32),), 10.0, "Default/net/Mul-op1", "aclnnMul_MulAiCore_Mul"),
    ]
    seen = seen_of(rows * 2)
    assert seen.match("Mul", mixed, (f32(64, 32),)) == Match(13.0, is_same=True)
    assert seen.match("Cast", half, (f32(64, 32),)) == Match(3.0, is_same=True)


def test_a_primitive_is_found_by_a_kernel_of_another_name_that_its_launch_ran() -> None:
    tokens = ((bf16(64, 32),), (bf16(64, 32),))
    seen = seen_of([row("NewKernelV2", *tokens, 4.0, "Default/net/NeverHeardOf-op3", "aclnnX_Y_NewKernelV2")])
    assert seen.match("NeverHeardOf", *tokens) == Match(4.0, is_same=True)
    assert seen.match("NewKernel", *tokens) == Match(4.0, is_same=True)
    assert seen.shapes[0].primitive == "NeverHeardOf"


def test_elements_in_another_order_are_another_shape_that_no_trace_has() -> None:
    blocks = MeasuredKernel(
        kernel="",
        device_name="x",
        type="MatMulV2",
        inputs=(bf16(64, 256, 16, 16), bf16(64, 256, 16, 16)),
        outputs=(bf16(256, 256, 16, 16),),
        duration_us=9.0,
        formats=(("FRACTAL_NZ", "FRACTAL_NZ"), ("FRACTAL_NZ",)),
    )
    seen = seen_of([blocks])
    assert len(seen.shapes) == 1
    assert seen.match("MatMulV2", blocks.inputs, blocks.outputs) is None


def test_what_is_measured_later_goes_before_what_was() -> None:
    first, second = (seen_of([row("MatMulV3", *PRODUCT, us)]) for us in (1.0, 2.0))
    assert first.with_later(second).match("MatMul", *PRODUCT) == Match(2.0, is_same=True)
    assert first.with_later(second) == second
    assert not Seen()
    assert Seen().match("MatMul", *PRODUCT) is None


def test_a_profile_of_a_run_goes_before_a_hardware_file_and_that_before_the_scale_of_a_type() -> None:
    tokens = ((bf16(64, 32),), (bf16(64, 32),))
    own = replace(hardware.load("ascend_910b2"), seen=seen_of([row("Exp", *tokens, 50.0)]))
    signatures = tuple(Signature("Exp", (bf16(64, n),), (bf16(64, n),)) for n in (32, 48))
    load = Workload(names=("a", "b"), signatures=signatures, index=np.arange(2))
    found = costs(load, own)
    assert found.duration_us[0] == 50.0
    assert found.shares().keys() == {FigureOrigin.MEASURED, FigureOrigin.ESTIMATED}
    by_type = costs(load, own, measured=Measured(average_us={"Exp": 4000.0}))
    assert by_type.duration_us[0] == 50.0
    assert by_type.duration_us[1] > 1000.0
    of_this_run = costs(load, own, measured=Measured(kernels=(row("Exp", *tokens, 70.0),)))
    assert of_this_run.duration_us[0] == 70.0


@pytest.mark.parametrize(
    ("one", "other"), [("SiLU", "Swish"), ("MatMulV3", "Dense"), ("aclnnAdd", "AddExt"), ("Div", "RealDiv")]
)
def test_a_kernel_has_one_name(one: str, other: str) -> None:
    assert kernel_of(one) == kernel_of(other)
    assert plain(one) != plain(other)


def test_what_a_file_tells_is_what_was_seen() -> None:
    blocks = MeasuredKernel(
        kernel="Default/net/Foo-op1",
        device_name="x",
        type="TransData",
        inputs=(bf16(64, 64), f32()),
        outputs=(bf16(4, 4, 16, 16),),
        duration_us=1.2345,
        formats=(("", ""), ("FRACTAL_NZ",)),
    )
    seen = seen_of(
        [row("MatMulV3", *PRODUCT, 240.125), row("MemSet", (f32(3),), (), 1.1), attention("SBH", 9.0), blocks]
    )
    assert len(seen.shapes) == 4
    assert hardware_shapes.parsed(hardware_shapes.told(seen)) == seen


def test_a_shape_that_a_file_cannot_tell_is_left_out() -> None:
    strange = [row("Exp", (Tensor("NO BODY", (4,)),), (f32(4),), 1.0), row("E" * 300, (f32(4),), (f32(4),), 1.0)]
    assert hardware_shapes.told(seen_of([*strange, row("Exp", (f32(4),), (f32(4),), 1.0)])) == [
        {"type": "Exp", "inputs": "Float32[4]", "outputs": "Float32[4]", "us": 1.0, "launches": 1}
    ]
