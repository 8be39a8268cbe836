"""What kernels cost: operations and bytes by hand, profiles with their sources, and measured tables over the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

import numpy as np
import pytest

from swapconf.profile import kernel_details, profiler_folder, trace_view
from swapconf.timing import hardware, hardware_names
from swapconf.timing.collectives import Shape, inside_bytes
from swapconf.timing.cost import FIGURES, ORIGINS, Costs, FigureOrigin, Host
from swapconf.timing.costing import Signature, Workload, costs, seconds, workload
from swapconf.timing.measurements import Measured, MeasuredCopy, MeasuredKernel
from swapconf.trace import trace_folder
from swapconf.trace.trace import Tensor
from swapconf.trace.work import Attention, Work, work
from swapconf.upstream.device_kernels import kernel_of, plain
from swapconf.words.findings import Finding, SwapconfError
from tests.helpers import TRACES

CARD = hardware.load("ascend_910b2")


def bf16(*shape: int) -> Tensor:
    return Tensor("BFloat16", shape)


def f32(*shape: int) -> Tensor:
    return Tensor("Float32", shape)


SCALARS = (Tensor("Bool", ()), Tensor("Int64", ()))


@pytest.mark.parametrize(
    ("primitive", "inputs", "outputs", "operations"),
    [
        ("MatMul", (bf16(64, 128), bf16(96, 128), *SCALARS), (bf16(64, 96),), 2 * 64 * 96 * 128),
        ("MatMul", (bf16(128, 64), bf16(128, 96)), (bf16(64, 96),), 2 * 64 * 96 * 128),
        ("Dense", (bf16(3, 64, 128), bf16(8, 128)), (bf16(3, 64, 8),), 2 * 3 * 64 * 8 * 128),
        ("BatchMatMul", (bf16(4, 2, 64, 128), bf16(4, 2, 128, 32)), (bf16(4, 2, 64, 32),), 2 * 8 * 64 * 128 * 32),
        (
            "GroupedMatmul",
            (bf16(100, 128), bf16(4, 128, 256), Tensor("Int64", (4,))),
            (bf16(100, 256),),
            2 * 100 * 128 * 256,
        ),
        ("GroupedMatmul", (bf16(128, 100), bf16(100, 256)), (bf16(4, 128, 256),), 2 * 100 * 128 * 256),
        ("Add", (bf16(64, 128), bf16(64, 128)), (bf16(64, 128),), 0),
    ],
)
def test_products_are_counted_whatever_is_transposed(
    primitive: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], operations: int
) -> None:
    assert work(primitive, inputs, outputs).matrix_ops == pytest.approx(operations)


def test_products_of_32_bit_floats_are_told_apart() -> None:
    done = work("MatMul", (f32(8, 16), f32(16, 4)), (f32(8, 4),))
    assert (done.matrix_ops, done.wide_matrix_ops) == (0, 2 * 8 * 16 * 4)
    assert seconds(Work(wide_matrix_ops=1e12), CARD) == pytest.approx(
        CARD.value("matrix_fp32_slowdown") * seconds(Work(matrix_ops=1e12), CARD)
    )


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (0, lambda s, n, d: (2, s, n * d)),
        (1, lambda s, n, d: (2, n, s, d)),
        (2, lambda s, n, d: (s, 2, n * d)),
        (3, lambda s, n, d: (2, s, n, d)),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_is_two_products_forward_and_five_backward(
    layout: int, shape: Callable[..., tuple[int, ...]], causal: bool
) -> None:
    length, heads, wide, narrow = 256, 4, 64, 32
    query, value = bf16(*shape(length, heads, wide)), bf16(*shape(length, heads, narrow))
    call = Attention(layout=layout, is_causal=causal)
    pairs = 2 * heads * (length * (length + 1) / 2 if causal else length * length)
    forward = work("FlashAttentionScore", (query, query, value), (f32(2, heads, length, 8), value), attention=call)
    assert forward.matrix_ops == pytest.approx(2 * pairs * (wide + narrow))
    backward = work("FlashAttentionScoreGrad", (query, query, value, value), (query, query, value), attention=call)
    assert backward.matrix_ops == pytest.approx(2 * pairs * (3 * wide + 2 * narrow))


@pytest.mark.parametrize(
    ("primitive", "whole", "sent"),
    [
        ("AllReduce", 4096, 2 * 4096 * 3 / 4),
        ("AllGather", 4096, 4096 * 3 / 4),
        ("ReduceScatter", 4096, 4096 * 3 / 4),
        ("AlltoAllV", 4096, 4096 * 3 / 4),
        ("Send", 4096, 4096),
        ("Barrier", 4096, 4096 * 3 / 4),
    ],
)
def test_a_collective_sends_what_its_ring_needs(primitive: str, whole: int, sent: float) -> None:
    assert inside_bytes(primitive, whole, Shape(hosts=1, cards=4)) == sent


def test_copies_are_moved_and_views_are_free() -> None:
    assert work("MoveTo", (bf16(10, 10), Tensor("String", ()), Tensor("Bool", ())), ()).copied_bytes == 200
    assert work("MoveTo", (Tensor("String", ()),), (bf16(10, 10),)).copied_bytes == 200
    assert work("Reshape", (bf16(10, 10),), (bf16(100),)) == Work()


def test_unknown_sizes_count_as_nothing() -> None:
    assert work("MatMul", (bf16(-1, 4), bf16(4, 4)), (bf16(-1, 4),)).matrix_ops == 0
    assert work("Add", (Tensor("Nothing", (4,)),), ()).memory_bytes == 0


def test_cards_share_their_host() -> None:
    assert Host().link_gbps(CARD) == CARD.value("host_link_gbps")
    assert Host(cards=8, bandwidth_gbps=80).link_gbps(CARD) == 10
    assert Host(cards=8, bandwidth_gbps=inf).link_gbps(CARD) == CARD.value("host_link_gbps")


@pytest.mark.parametrize("name", hardware_names.names())
def test_every_figure_has_a_source_and_what_is_missing_is_told(name: str) -> None:
    card = hardware.load(name)
    assert set(card.figures) == set(FIGURES)
    assert all(figure.value > 0 and len(figure.source) > 10 for figure in card.figures.values())
    generic = hardware.load("generic")
    assert all(card.figures[item] == generic.figures[item] for item in card.assumed)
    assert not generic.assumed
    assert all(
        ("assumed" in card.figures[item].source) == (item in card.assumed or name == "generic") for item in FIGURES
    )


def findings(path: Path) -> tuple[Finding, ...]:
    with pytest.raises(SwapconfError) as caught:
        hardware.load(str(path))
    return caught.value.findings


def test_a_file_of_ones_own_overrides_what_it_tells(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "figures": {"host_link_gbps": {"value": 24.5, "source": "measured"}}}))
    card = hardware.load(str(path))
    assert card.value("host_link_gbps") == 24.5
    assert card.assumed == set(FIGURES) - {"host_link_gbps"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", ""),
        ("[]", ""),
        ('{"name": "x"}', ""),
        ('{"name": "x", "figures": {"speed": {"value": 1}}}', "figures"),
        ('{"name": "x", "figures": {"host_link_gbps": {"value": 0, "source": "y"}}}', "figures.host_link_gbps.value"),
        ('{"name": "x", "figures": {"host_link_gbps": {"value": NaN, "source": "y"}}}', "figures.host_link_gbps.value"),
        (
            '{"name": "x", "figures": {"host_link_gbps": {"value": Infinity, "source": "y"}}}',
            "figures.host_link_gbps.value",
        ),
        (
            '{"name": "x", "figures": {"matrix_tflops": {"value": 1e-308, "source": "y"}}}',
            "figures.matrix_tflops.value",
        ),
        ('{"name": "x", "figures": {"memory_gbps": {"value": 1e10, "source": "y"}}}', "figures.memory_gbps.value"),
        (
            f'{{"name": "x", "figures": {{"peer_links": {{"value": 1{"0" * 400}, "source": "y"}}}}}}',
            "figures.peer_links.value",
        ),
        ('{"name": "x", "figures": {"host_link_gbps": {"value": 1}}}', "figures.host_link_gbps"),
        (
            '{"name": "x", "figures": {"host_link_gbps": {"value": true, "source": "y"}}}',
            "figures.host_link_gbps.value",
        ),
        ('{"name": 1, "figures": {}}', "name"),
        ("\udcff", ""),
    ],
)
def test_a_broken_profile_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert place in {finding.origin.path for finding in findings(path)}


def test_a_missing_profile_names_those_that_there_are(tmp_path: Path) -> None:
    [finding] = findings(tmp_path / "none.json")
    assert finding.rule == "file-not-found"
    assert "ascend_910b2" in finding.hint


def test_faster_hardware_is_never_slower() -> None:
    load = workload(trace_folder.read(TRACES / "llama_l2_layerswap_n1", 0))
    before = costs(load, CARD).duration_us
    assert (before >= 0).all()
    assert np.isfinite(before).all()
    for name in ("matrix_tflops", "vector_tflops", "memory_gbps", "host_link_gbps", "peer_link_gbps"):
        after = costs(load, CARD.having(name, 2 * CARD.value(name), "twice")).duration_us
        assert (after <= before).all(), name
        assert after.sum() < before.sum() or name == "vector_tflops"


def table(*rows: str) -> str:
    head = "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
    return head + "".join(f"{row}\n" for row in rows)


def read(tmp_path: Path, text: str) -> tuple[MeasuredKernel, ...]:
    path = tmp_path / "kernel_details.csv"
    path.write_text(text, encoding="utf-8")
    return kernel_details.read(path)


ROW = '{name},{type},{us},"""64,128;128,32;""",DT_BF16;DT_BF16;BOOL,"""64,32""",DT_BF16'


def test_rows_of_a_profile_are_read(tmp_path: Path) -> None:
    one, two = read(
        tmp_path,
        table(
            ROW.format(name="Default/net/MatMul-op0/aclnnMatmul_MatMulV3", type="MatMulV3", us="12.5\t"),
            "hcom_allReduce__1,hcom_allReduce_,7,N/A,N/A,N/A,N/A",
        ),
    )
    assert one == MeasuredKernel(
        kernel="Default/net/MatMul-op0",
        device_name="aclnnMatmul_MatMulV3",
        type="MatMulV3",
        duration_us=12.5,
        inputs=(bf16(64, 128), bf16(128, 32), Tensor("Bool", ())),
        outputs=(bf16(64, 32),),
    )
    assert (two.kernel, two.inputs, two.duration_us) == ("", (), 7.0)


def test_level_0_has_no_shapes(tmp_path: Path) -> None:
    [row] = read(tmp_path, "Name,Type,Accelerator Core,Start Time(us),Duration(us)\nAdd1,Add,AIV,1,3.25\n")
    assert (row.inputs, row.duration_us) == ((), 3.25)


@pytest.mark.parametrize(
    "row",
    [
        "a,Add,,N/A,N/A,N/A,N/A",
        "a,Add,-1,,,,",
        "a,Add,x,,,,",
        'a,Add,1,"""4;4""",DT_BF16,,',
        'a,Add,1,"""4x4""",DT_BF16,,',
    ],
)
def test_a_broken_row_is_told_with_its_line(tmp_path: Path, row: str) -> None:
    with pytest.raises(SwapconfError) as caught:
        read(tmp_path, table(ROW.format(name="a", type="b", us=1), row))
    assert [finding.origin.line for finding in caught.value.findings] == [3]


def test_averages_by_type_are_read(tmp_path: Path) -> None:
    (tmp_path / "op_statistic.csv").write_text(
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "0,MatMulV3,AI_CORE,4,100.0,1,25,90,50\n0,MatMulV3,MIX_AIC,1,50,50,50,50,25\n0,Add,AIV,0,0,0,0,0,0\n"
    )
    found = profiler_folder.read(tmp_path)
    assert found == Measured(average_us={"MatMulV3": 30.0})
    with pytest.raises(SwapconfError):
        profiler_folder.read(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("device", "primitive"),
    [
        ("MatMulV3", "MatMul"),
        ("hcom_allReduce_", "AllReduce"),
        ("aclnnAdd", "Add"),
        ("BatchMatMulV2", "BatchMatMul"),
        ("FlashAttentionScoreGrad", "FlashAttentionScoreGrad"),
    ],
)
def test_types_of_the_device_are_primitives(device: str, primitive: str) -> None:
    assert plain(device) == plain(primitive)


@dataclass(frozen=True)
class Calibrated:
    """A trace of which some was measured: by name its first product, which took 4 us before it as a `Transpose` and 7
    as itself; by shape all products like ``slow``, which took thrice what the model says; by type every `Add`."""

    load: Workload
    plainly: Costs
    found: Costs
    first: int
    slow: int

    def of(self, primitive: str) -> list[int]:
        return [
            number
            for number, signature in enumerate(self.signatures)
            if kernel_of(signature.primitive) == kernel_of(primitive)
        ]

    @cached_property
    def signatures(self) -> list[Signature]:
        return [self.load.signatures[index] for index in self.load.index]

    @cached_property
    def like_slow(self) -> list[int]:
        inputs = self.signatures[self.slow].inputs
        return [number for number in self.of("MatMul") if self.signatures[number].inputs == inputs]

    def origins(self, numbers: Iterable[int]) -> set[FigureOrigin]:
        return {ORIGINS[self.found.origin[number]] for number in numbers}


@pytest.fixture(scope="module")
def calibrated() -> Calibrated:
    load = workload(trace_folder.read(TRACES / "llama_l2_none", 0))
    plainly = costs(load, CARD)
    which = [load.signatures[index] for index in load.index]
    first, *others = [number for number, item in enumerate(which) if item.primitive == "MatMul"]
    slow = next(number for number in others if which[number].inputs != which[first].inputs)
    alike = MeasuredKernel(
        kernel="",
        device_name="MatMulV3",
        type="MatMulV3",
        inputs=which[slow].inputs,
        outputs=which[slow].outputs,
        duration_us=3 * float(plainly.duration_us[slow]),
    )
    named = [
        MeasuredKernel(kernel=load.names[first], device_name=name, type=kind, inputs=(), outputs=(), duration_us=us)
        for name, kind, us in [("a", "Transpose", 4.0), ("b", "MatMulV3", 7.0)]
    ]
    measured = Measured(kernels=(alike, alike, *named), average_us={"Add": 11.0})
    return Calibrated(load, plainly, costs(load, CARD, measured=measured), first, slow)


def test_nothing_measured_is_all_estimated(calibrated: Calibrated) -> None:
    assert calibrated.plainly.share(FigureOrigin.ESTIMATED) == 1.0


def test_what_was_measured_by_name_takes_all_that_was_seen_of_that_name(calibrated: Calibrated) -> None:
    assert calibrated.found.duration_us[calibrated.first] == 11.0
    assert calibrated.origins([calibrated.first]) == {FigureOrigin.MEASURED}


def test_what_was_measured_by_shape_holds_wherever_the_shape_is(calibrated: Calibrated) -> None:
    three = 3 * float(calibrated.plainly.duration_us[calibrated.slow])
    assert calibrated.found.duration_us[calibrated.like_slow] == pytest.approx(three)
    assert calibrated.origins(calibrated.like_slow) == {FigureOrigin.MEASURED}


def test_other_shapes_of_a_measured_primitive_are_calibrated(calibrated: Calibrated) -> None:
    rest = sorted({*calibrated.of("MatMul")} - {*calibrated.like_slow, calibrated.first})
    assert calibrated.found.duration_us[rest] == pytest.approx(3 * calibrated.plainly.duration_us[rest])
    assert calibrated.origins(rest) == {FigureOrigin.CALIBRATED}


def test_what_was_measured_by_type_is_right_on_average(calibrated: Calibrated) -> None:
    assert calibrated.found.duration_us[calibrated.of("Add")].mean() == pytest.approx(11.0)


def test_what_was_not_measured_is_estimated_as_before(calibrated: Calibrated) -> None:
    everything = range(len(calibrated.signatures))
    rest = sorted({*everything} - {*calibrated.of("MatMul"), *calibrated.of("Add")})
    assert calibrated.found.duration_us[rest].tolist() == calibrated.plainly.duration_us[rest].tolist()
    assert calibrated.origins(rest) == {FigureOrigin.ESTIMATED}


def test_the_shares_of_all_origins_are_the_whole(calibrated: Calibrated) -> None:
    assert sum(calibrated.found.share(item) for item in FigureOrigin) == pytest.approx(1.0)


def view(tmp_path: Path, events: object) -> Measured:
    path = tmp_path / "trace_view.json"
    path.write_text(events if isinstance(events, str) else json.dumps(events), encoding="utf-8")
    return trace_view.read(path)


def copied(operation: str, size: object, us: object) -> dict[str, object]:
    return {
        "ph": "X",
        "name": "MEMCPY_ASYNC",
        "ts": "1704161511420306.491",
        "dur": us,
        "args": {"Task Type": "SDMA_SQE", "size(B)": size, "bandwidth(GB/s)": 1.0, "operation": operation},
    }


EVENTS = [
    {"ph": "M", "name": "process_name"},
    copied("device to host", 4096, "2.5"),
    copied("host to device ex", 8192, 4),
    copied("device to device", 8192, 4),
    copied("host to device", 0, 4),
    {"ph": "X", "name": "hcom_allReduce__628_0_1", "dur": 10},
    {"ph": "X", "name": "hcom_allReduce__628_1_1", "dur": 30.0},
    {"ph": "X", "name": "aclnnAdd", "dur": 1},
]


@pytest.mark.parametrize("events", [EVENTS, {"traceEvents": EVENTS}])
def test_copies_and_collectives_are_read_from_a_timeline(tmp_path: Path, events: object) -> None:
    assert view(tmp_path, events) == Measured(
        copies=(
            MeasuredCopy(to_host=True, size_bytes=4096, duration_us=2.5),
            MeasuredCopy(to_host=False, size_bytes=8192, duration_us=4.0),
        ),
        average_us={"hcom_allReduce_": 20.0},
    )


@pytest.mark.parametrize(
    "events",
    [
        "",
        "[",
        '"text"',
        "{}",
        "[" * 100_000,
        [copied("device to host", "x", 1)],
        [copied("device to host", 1, None)],
        [copied("device to host", 1, -1)],
        [copied("device to host", True, 1)],
        [copied("device to host", 1, "nan")],
        [{"ph": "X", "name": "hcom_send_1"}],
    ],
)
def test_a_broken_timeline_is_refused(tmp_path: Path, events: object) -> None:
    with pytest.raises(SwapconfError):
        view(tmp_path, events)


def test_copies_take_what_was_seen_of_their_size_and_direction() -> None:
    load = workload(trace_folder.read(TRACES / "llama_l2_layerswap_n1", 0))
    plainly = costs(load, CARD)
    which = [load.signatures[index] for index in load.index]
    out = [number for number, item in enumerate(which) if item.primitive == "MoveTo" and not item.outputs]
    back = [number for number, item in enumerate(which) if item.primitive == "MoveTo" and item.outputs]
    size = {number: which[number].inputs[0].size_bytes or 0 for number in out}
    seen = size[out[0]]
    assert len({*size.values()}) > 3
    found = costs(
        load,
        CARD,
        measured=Measured(
            copies=(
                MeasuredCopy(to_host=True, size_bytes=seen, duration_us=3.0),
                MeasuredCopy(to_host=True, size_bytes=3 * seen + 1, duration_us=8.0),
            )
        ),
    )
    for number in out:
        if size[number] == seen:
            assert (found.duration_us[number], ORIGINS[found.origin[number]]) == (3.0, FigureOrigin.MEASURED)
        else:
            assert found.duration_us[number] == pytest.approx(size[number] * 11 / (4 * seen + 1))
            assert ORIGINS[found.origin[number]] is FigureOrigin.CALIBRATED
    assert (found.duration_us[back] == plainly.duration_us[back]).all()
    assert {ORIGINS[found.origin[number]] for number in back} == {FigureOrigin.ESTIMATED}
