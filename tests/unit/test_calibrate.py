"""``swapconf calibrate``: fits of one's own kernels, what is held out, what is not seen, and files that are broken."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from click.testing import Result

from swapconf.profile import kernel_details
from swapconf.timing import hardware
from swapconf.timing.calibration import calibrated, link_gbps
from swapconf.timing.cost import Costs, FigureOrigin, Hardware
from swapconf.timing.costing import Signature, Workload, costs
from swapconf.timing.families import FAMILIES, computes, kind_of, measured_terms
from swapconf.timing.held_out import Verdict
from swapconf.timing.measurements import MeasuredCopy, MeasuredKernel
from swapconf.trace.trace import Tensor
from swapconf.upstream.device_kernels import plain
from tests.helpers import CORPUS, invoke

# a public profile beside the corpus, see docs/evidence/kernel-times.md
PUBLIC = CORPUS.parent / "reports" / "profile" if CORPUS is not None else None
CARD = hardware.load("ascend_910b2")
HEAD = "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
SUMMARY = "Op Name,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
SIZES = [(2**exponent, width) for exponent in range(2, 14) for width in (512, 768, 4096)]


def slow(kind: str, factor: float, *shape: int) -> MeasuredKernel:
    """As public kernels, times a factor."""
    tensor = Tensor("Float16", shape)
    found = MeasuredKernel(kernel="", device_name="", type=kind, inputs=(tensor,), outputs=(tensor,), duration_us=1.0)
    known = measured_terms(found, CARD)
    assert known is not None
    us = factor * CARD.fits[known[0]].time_us(known[1])
    return MeasuredKernel(kernel="", device_name="", type=kind, inputs=(tensor,), outputs=(tensor,), duration_us=us)


def known(card: Hardware, kind: str, *shape: int) -> Costs:
    tensor = Tensor("Float16", shape)
    load = Workload(
        names=("x",), signatures=(Signature(kind, (tensor,), (tensor,)),), index=np.zeros(1, dtype=np.int64)
    )
    return costs(load, card)


def time_us(card: Hardware, kind: str, *shape: int) -> float:
    return float(known(card, kind, *shape).duration_us[0])


def origin(card: Hardware, kind: str, *shape: int) -> FigureOrigin:
    [found] = known(card, kind, *shape).shares()
    return found


def rows(factor: float) -> str:
    found = [slow("Exp", factor, *size) for size in SIZES]
    return "".join(
        f'x,Exp,{item.duration_us:.3f},"""{item.inputs[0].shape[0]},{item.inputs[0].shape[1]}""",FLOAT16,'
        f'"""{item.inputs[0].shape[0]},{item.inputs[0].shape[1]}""",FLOAT16\n'
        for item in found
    )


def run(*words: str | Path) -> Result:
    return invoke("calibrate", *words)


def test_kernels_that_take_twice_as_long_are_predicted_so_where_they_were_held_out() -> None:
    found = calibrated([slow("Exp", 2.0, *size) for size in SIZES], (), CARD, "ours")
    trial = found.trials["elementwise/exp"]
    assert trial.held_before is not None
    assert trial.held_after is not None
    assert trial.held_before.median == pytest.approx(0.5, abs=0.01)
    assert trial.held_after.median < 0.1
    assert trial.held_after.total == pytest.approx(1.0, abs=0.05)
    assert trial.verdict is Verdict.TAKEN
    assert set(found.kinds) == set(found.trials) == {"elementwise/exp"}
    assert set(found.unseen) == set(FAMILIES) - {"elementwise"}
    assert found.link_gbps is None
    assert found.fits == {}


def test_a_fit_that_tells_the_other_half_no_better_is_not_taken() -> None:
    """By chance twice as long or half: what one half of them says is nothing for the other."""
    kernels = [slow("Exp", 2.0 if number % 2 else 0.5, *size) for number, size in enumerate(SIZES)]
    found = calibrated(kernels, (), CARD, "ours")
    trial = found.trials["elementwise/exp"]
    assert trial.verdict is Verdict.NOT_CLOSER
    assert trial.held_before is not None
    assert trial.held_after is not None
    assert found.kinds == {}
    assert len(found.seen.shapes) == len(SIZES)


def test_two_shapes_tell_nothing_of_others_however_far_off_they_are() -> None:
    found = calibrated([slow("Exp", 9.0, *size) for size in SIZES[:2]], (), CARD, "ours")
    assert found.trials["elementwise/exp"].verdict is Verdict.TOO_FEW
    assert found.kinds == {}


def test_what_one_type_takes_changes_no_other_type_of_its_family() -> None:
    own = calibrated([slow("Exp", 3.0, *size) for size in SIZES], (), CARD, "ours").on(CARD)
    assert time_us(own, "Exp", 7000, 500) == pytest.approx(3 * time_us(CARD, "Exp", 7000, 500), rel=0.15)
    assert time_us(own, "Tan", 7000, 500) == time_us(CARD, "Tan", 7000, 500)


def test_beyond_what_was_seen_a_fit_goes_over_into_what_was_known() -> None:
    own = calibrated([slow("Exp", 3.0, 2**size, 512) for size in range(2, 10)], (), CARD, "ours").on(CARD)
    ratios = [time_us(own, "Exp", 2**size, 511) / time_us(CARD, "Exp", 2**size, 511) for size in range(8, 18)]
    assert ratios[0] == pytest.approx(3.0, rel=0.2)
    assert ratios[-1] == pytest.approx(1.0)
    assert ratios == sorted(ratios, reverse=True)


def test_the_gradients_of_weights_are_products_of_another_kind() -> None:
    def product(*shapes: tuple[int, int]) -> str:
        one, two, made = (Tensor("BFloat16", shape) for shape in shapes)
        return kind_of("MatMulV3", "matmul", (one, two), (made,))

    forward = product((4096, 1024), (1024, 3072), (4096, 3072))
    assert forward == product((4096, 3072), (1024, 3072), (4096, 1024)) == "matmul/matmul"
    assert product((4096, 1024), (4096, 3072), (1024, 3072)) == "matmul/matmul transposed"


def test_the_link_is_that_of_large_copies_in_the_slower_direction() -> None:
    copies = [
        MeasuredCopy(to_host=True, size_bytes=20_000_000, duration_us=1000.0),
        MeasuredCopy(to_host=False, size_bytes=20_000_000, duration_us=800.0),
        MeasuredCopy(to_host=True, size_bytes=1000, duration_us=1000.0),
    ]
    assert link_gbps(copies) == pytest.approx(20.0)
    assert link_gbps(copies[2:]) is None
    assert calibrated([], copies, CARD, "ours").figures["host_link_gbps"].value == pytest.approx(20.0)


@pytest.mark.parametrize(("name", "head"), [("kernel_details.csv", HEAD), ("op_summary_20260101.csv", SUMMARY)])
def test_a_file_of_ones_own_is_written_and_read(tmp_path: Path, name: str, head: str) -> None:
    profile, file = tmp_path / name, tmp_path / "mine.json"
    profile.write_text(head + rows(3.0))
    result = run(profile, "--hardware", "ascend_910b2", "-o", file)
    assert result.exit_code == 0, result.output
    assert "elementwise" in result.stdout
    assert "36 shapes of 36 of them come out as measured" in result.stdout
    assert "not seen, so as before: matmul" in result.stdout
    card = hardware.load(str(file))
    assert card.kinds["elementwise/exp"].is_own
    assert card.fits == CARD.fits
    assert (card.assumed, card.assumed_of_card) == (CARD.assumed, CARD.assumed_of_card)
    assert card.card == CARD.card
    assert card.name == "Ascend 910B2, calibrated"
    assert time_us(card, "Exp", 4097, 4096) == pytest.approx(3 * time_us(CARD, "Exp", 4097, 4096), rel=0.15)
    assert origin(card, "Exp", 4097, 4096) is FigureOrigin.CALIBRATED
    assert time_us(card, "Exp", 4096, 4096) == round(slow("Exp", 3.0, 4096, 4096).duration_us, 3)
    assert origin(card, "Exp", 4096, 4096) is FigureOrigin.MEASURED


def test_a_folder_of_the_profiler_and_its_copies_are_read(tmp_path: Path) -> None:
    copy = {
        "ph": "X",
        "name": "MEMCPY_ASYNC",
        "ts": "1",
        "dur": 1000,
        "args": {"size(B)": 12_000_000, "operation": "device to host"},
    }
    (tmp_path / "trace_view.json").write_text(json.dumps([copy]))
    (tmp_path / "kernel_details.csv").write_text(HEAD + rows(1.0))
    result = run(tmp_path, "--hardware", "generic", "-o", tmp_path / "mine.json")
    assert result.exit_code == 0, result.output
    assert "host link: 12.0 GB/s" in result.stdout
    assert hardware.load(str(tmp_path / "mine.json")).value("host_link_gbps") == 12.0


def test_one_kernel_is_enough_for_its_own_shape(tmp_path: Path) -> None:
    profile = tmp_path / "kernel_details.csv"
    profile.write_text(HEAD + 'x,Exp,500,"""4096,4096""",FLOAT16,"""4096,4096""",FLOAT16\n')
    result = run(profile, "--hardware", "ascend_910b2", "-o", tmp_path / "mine.json")
    assert result.exit_code == 0
    assert "too few shapes to tell others, which are estimated as before: Exp" in result.stdout
    card = hardware.load(str(tmp_path / "mine.json"))
    assert time_us(card, "Exp", 4096, 4096) == 500
    assert time_us(card, "Exp", 4096, 4095) == time_us(CARD, "Exp", 4096, 4095)


def test_a_file_is_calibrated_further_and_nothing_is_lost(tmp_path: Path) -> None:
    """By another profile; by the same one it stays as it is, to the byte."""
    first, second, profile = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "kernel_details.csv"
    profile.write_text(HEAD + rows(3.0))
    assert run(profile, "--hardware", "ascend_910b2", "-o", first).exit_code == 0
    assert run(profile, "--hardware", first, "-o", second).exit_code == 0
    assert second.read_bytes() == first.read_bytes()
    profile.write_text(HEAD + 'x,Tan,7,"""4096,4096""",FLOAT16,"""4096,4096""",FLOAT16\n')
    assert run(profile, "--hardware", first, "-o", second).exit_code == 0
    before, after = (hardware.load(str(file)) for file in (first, second))
    assert after.kinds == before.kinds
    assert set(after.seen.shapes) > set(before.seen.shapes)
    assert after.name == before.name


def test_a_file_that_an_earlier_release_wrote_is_read(tmp_path: Path) -> None:
    file, own = tmp_path / "mine.json", replace(CARD.fits["elementwise"], floor_us=50.0, source="swapconf calibrate x")
    file.write_text(json.dumps(hardware.as_data("Ascend 910B2, calibrated", {}, {"elementwise": own})))
    assert set(json.loads(file.read_text())) == {"name", "figures", "kernels"}
    card = hardware.load(str(file))
    assert card.fits["elementwise"].is_own
    assert time_us(card, "Exp", 8, 8) > 50
    assert origin(card, "Exp", 8, 8) is FigureOrigin.CALIBRATED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Name,Type,Duration(us)\nx,Add,5\n",
        HEAD,
        HEAD + "x,Add,nan,4,FLOAT,4,FLOAT\n",
        HEAD + "x,Add,-5,4,FLOAT,4,FLOAT\n",
        HEAD + "x,Add,1e400,4,FLOAT,4,FLOAT\n",
        HEAD + f'x,Add,5,"""{",".join(["9223372036854775807"] * 40)}""",FLOAT,4,FLOAT\n',
        HEAD + "x,hcom_allReduce_,5,4,FLOAT,4,FLOAT\n",
        HEAD + "x,Reshape,5,4,FLOAT,4,FLOAT\n",
        HEAD + "x,Add,0,4,FLOAT,4,FLOAT\n",
        "\0\0\0",
    ],
)
def test_what_tells_nothing_is_refused_and_nothing_is_written(tmp_path: Path, text: str) -> None:
    profile, file = tmp_path / "kernel_details.csv", tmp_path / "mine.json"
    profile.write_text(text)
    result = run(profile, "--hardware", "ascend_910b2", "-o", file)
    assert result.exit_code == 2, result.output
    assert "error" in result.output.lower()
    assert not file.exists()


@pytest.mark.parametrize(
    "row",
    [
        'x,MatMul,1e15,"""4,4;4,4""",FLOAT16;FLOAT16,"""4,4""",FLOAT16',
        'x,MatMul,5,"""4,4;4,4""",FLOAT16;FLOAT16,"""""",FLOAT16',
        'x,FlashAttentionScore,5,"""4;4""",FLOAT16;FLOAT16,4,FLOAT16',
        'x,FlashAttentionScoreGrad,5,"""2,4,0,0;2,4,0,0""",FLOAT16;FLOAT16,4,FLOAT16',
        'x,Add,5,"""1000000000,1000000;""",FLOAT16;NOBODYKNOWS,4,FLOAT16',
        'x,Add,5,"""0,0""",FLOAT16,"""0""",FLOAT16',
    ],
)
def test_strange_kernels_end_in_a_file_that_can_be_read_or_are_refused(tmp_path: Path, row: str) -> None:
    profile, file = tmp_path / "kernel_details.csv", tmp_path / "mine.json"
    profile.write_text(HEAD + row + "\n")
    result = run(profile, "--hardware", "ascend_910b2", "-o", file)
    assert result.exit_code in (0, 2), result.output
    if result.exit_code == 0:
        hardware.load(str(file))


@pytest.mark.parametrize("value", [-1, "x", None, float("nan"), 1e9])
def test_a_fit_out_of_bounds_is_refused_with_its_place(tmp_path: Path, value: object) -> None:
    data = hardware.as_data("mine", {}, {"matmul": CARD.fits["matmul"]})
    data["kernels"]["matmul"]["matrix"] = value
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(data))
    result = invoke("timeline", tmp_path, "--hardware", file)
    assert result.exit_code == 2
    assert "kernels.matmul" in result.output


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"us": -1}, "shapes.0.us"),
        ({"us": float("nan")}, "shapes.0.us"),
        ({"inputs": "Float16[4,"}, "shapes.0.inputs"),
        ({"inputs": "Float16[4]; rm -rf"}, "shapes.0.inputs"),
        ({"launches": 0}, "shapes.0.launches"),
        ({"type": ""}, "shapes.0.type"),
    ],
)
def test_a_shape_that_is_none_is_refused_with_its_place(
    tmp_path: Path, change: Mapping[str, object], place: str
) -> None:
    shape = {"type": "Exp", "inputs": "Float16[4,4]", "outputs": "Float16[4,4]", "us": 1.5, "launches": 2}
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"name": "mine", "figures": {}, "shapes": [shape]}))
    assert time_us(hardware.load(str(file)), "Exp", 4, 4) == 1.5
    file.write_text(json.dumps({"name": "mine", "figures": {}, "shapes": [{**shape, **change}]}))
    result = invoke("timeline", tmp_path, "--hardware", file)
    assert result.exit_code == 2
    assert place in result.output


@pytest.mark.skipif(PUBLIC is None or not PUBLIC.exists(), reason="SWAPCONF_CORPUS is not set")
def test_a_public_profile_comes_out_as_it_was_measured(tmp_path: Path) -> None:
    """Its kernels by their medians, flash attention 883 and 2256 us; its card is recognised."""
    result = run(PUBLIC or "", "-o", tmp_path / "mine.json")
    assert result.exit_code == 0, result.output
    assert "recognised: ascend_910b4" in result.stdout
    card = hardware.load(str(tmp_path / "mine.json"))
    times: dict[tuple[object, ...], list[MeasuredKernel]] = defaultdict(list)
    for kernel in kernel_details.read(PUBLIC / "kernel_details.csv" if PUBLIC else ""):
        if computes(kernel):
            times[plain(kernel.type), kernel.inputs, kernel.outputs].append(kernel)
    assert len(times) == 108
    for alike in times.values():
        signature = Signature(alike[0].type, alike[0].inputs, alike[0].outputs)
        one = costs(Workload(names=("x",), signatures=(signature,), index=np.zeros(1, dtype=np.int64)), card)
        assert one.duration_us[0] == pytest.approx(median(kernel.duration_us for kernel in alike), rel=1e-9)
        assert one.share(FigureOrigin.MEASURED) == 1.0
