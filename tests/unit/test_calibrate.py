"""``swapconf calibrate``: fits of one's own kernels, what is held out, what is not seen, and files that are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from swapconf.timing import hardware
from swapconf.timing.calibration import calibrated, link_gbps
from swapconf.timing.cost import FigureOrigin
from swapconf.timing.families import FAMILIES, measured_terms
from swapconf.timing.measurements import MeasuredCopy, MeasuredKernel
from swapconf.trace.trace import Tensor
from tests.helpers import invoke

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
    assert found.before is not None
    assert found.after is not None
    assert found.before.median == pytest.approx(0.5, abs=0.01)
    assert found.after.median < 0.1
    assert found.after.total == pytest.approx(1.0, abs=0.05)
    assert set(found.fits) == set(found.families) == {"elementwise"}
    assert set(found.unseen) == set(FAMILIES) - {"elementwise"}
    assert found.link_gbps is None


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
    assert "not seen, so as publicly known: matmul" in result.stdout
    card = hardware.load(str(file))
    assert card.fits["elementwise"].is_own
    assert card.fits["matmul"] == CARD.fits["matmul"]
    assert card.assumed == CARD.assumed
    assert card.name == "Ascend 910B2, calibrated"
    known = measured_terms(slow("Exp", 3.0, 4096, 4096), CARD)
    assert known is not None
    assert card.fits["elementwise"].time_us(known[1]) == pytest.approx(
        3 * CARD.fits["elementwise"].time_us(known[1]), rel=0.15
    )
    assert FigureOrigin.CALIBRATED.value == "calibrated"


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


def test_one_kernel_is_enough_and_its_range_is_wide(tmp_path: Path) -> None:
    profile = tmp_path / "kernel_details.csv"
    profile.write_text(HEAD + 'x,Exp,500,"""4096,4096""",FLOAT16,"""4096,4096""",FLOAT16\n')
    assert run(profile, "--hardware", "ascend_910b2", "-o", tmp_path / "mine.json").exit_code == 0
    fitted = hardware.load(str(tmp_path / "mine.json")).fits["elementwise"]
    assert fitted.high / fitted.low > 2


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
