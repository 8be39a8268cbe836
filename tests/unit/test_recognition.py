"""Which card a profile is of: by the profiler's record of the device, by cores and cycles, by what is reached."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from swapconf.profile import device_info, kernel_details
from swapconf.timing import hardware
from swapconf.timing.hardware_names import names
from swapconf.timing.measurements import Device, MeasuredKernel
from swapconf.timing.recognition import Likeness, likeness
from swapconf.trace.trace import Tensor
from tests.helpers import invoke

CARDS = {name: hardware.load(name) for name in names() if name != hardware.GENERIC}
HEAD = (
    "Name,Type,Accelerator Core,Duration(us),Block Dim,Input Shapes,Input Data Types,Output Shapes,Output Data Types,"
    "aicore_time(us),aic_total_cycles,aiv_time(us),aiv_total_cycles\n"
)


def counted(cores: int, clock_mhz: int) -> str:
    """Four products on all cores, and one kernel that divides itself into more parts than there are."""
    product = f'"4096,1024;6144,1024",DT_BF16;DT_BF16,"4096,6144",DT_BF16,200.0,{200 * cores * clock_mhz},0,0'
    rows = [f"x,MatMulV3,AI_CORE,238.8,{cores},{product}\n"] * 4
    return (
        HEAD + "".join(rows) + f'y,Exp,AI_VECTOR_CORE,500,256,"64,64",FLOAT,"64,64",FLOAT,0,0,500,{500 * 256 * 300}\n'
    )


def run(profile: Path, *words: str | Path) -> Result:
    return invoke("calibrate", profile, "-o", profile.with_name("mine.json"), *words)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return tmp_path / "kernel_details.csv"


@pytest.mark.parametrize(
    ("cores", "clock_mhz", "card"), [(24, 1850, "ascend_910b1"), (24, 1800, "ascend_910b2"), (20, 1800, "ascend_910b3")]
)
def test_a_card_is_recognised_by_its_cores_and_the_cycles_that_they_count(
    profile: Path, cores: int, clock_mhz: int, card: str
) -> None:
    profile.write_text(counted(cores, clock_mhz))
    kernels = kernel_details.read(profile)
    assert [kernel.clock_mhz for kernel in kernels] == pytest.approx([clock_mhz] * 4 + [300])
    assert [kernel.blocks for kernel in kernels] == [cores] * 4 + [256]
    found = likeness(kernels, CARDS)
    assert found.cube_cores == cores
    assert found.clock_mhz == pytest.approx(clock_mhz)
    assert found.nearest(CARDS) == (card,)
    result = run(profile)
    assert result.exit_code == 0, result.output
    assert f"recognised: {card}, by {cores} cores with a matrix unit, {clock_mhz:,} MHz" in result.stdout
    assert hardware.load(str(profile.with_name("mine.json"))).name == f"{CARDS[card].name}, calibrated"


def flat(gbps: float) -> MeasuredKernel:
    tensor = Tensor("Float32", (200_000_000,))
    return MeasuredKernel(
        kernel="", device_name="", type="Mul", inputs=(tensor,), outputs=(tensor,), duration_us=1.6e6 / gbps
    )


def test_what_the_memory_reaches_tells_a_card_where_nothing_is_counted() -> None:
    """And a card of the same cores from another one: those of 910B3 and 910B4 differ in nothing else so much."""
    assert likeness([flat(680.0)] * 3, CARDS).nearest(CARDS) == ("ascend_910b4",)
    fast = Likeness(cube_cores=20, clock_mhz=1650, memory_gbps=1360)
    assert fast.nearest(CARDS) == ("ascend_910b3",)
    assert replace(fast, memory_gbps=680).nearest(CARDS) == ("ascend_910b4",)
    assert len(replace(fast, memory_gbps=0).nearest(CARDS)) == 2


def test_rates_that_no_card_has_tell_nothing_and_so_do_two_kernels() -> None:
    assert not likeness([flat(9000.0)] * 3, CARDS)
    assert not likeness([flat(680.0)] * 2, CARDS)
    assert likeness([], CARDS).nearest(CARDS) == ()


def test_the_profilers_own_record_of_the_device_is_read(tmp_path: Path) -> None:
    output, raw = tmp_path / "ASCEND_PROFILER_OUTPUT", tmp_path / "PROF_000001" / "device_3"
    output.mkdir()
    raw.mkdir(parents=True)
    assert device_info.beside(output) is None
    (raw / "info.json.3.done").write_text("{}")
    (raw / "info.json.3").write_text(json.dumps({"DeviceInfo": [{"ai_core_num": 24, "aic_frequency": "1800"}]}))
    assert device_info.beside(output) == Device(cube_cores=24, clock_mhz=1800.0)
    assert likeness([], CARDS, device_info.beside(output)).nearest(CARDS) == ("ascend_910b2",)
    (output / "kernel_details.csv").write_text(counted(20, 1800))
    result = run(output)
    assert "recognised: ascend_910b2" in result.stdout, result.output


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"DeviceInfo": 3}', '{"DeviceInfo": [{"ai_core_num": true, "aic_frequency": "x"}]}', "9" * 9],
)
def test_a_record_that_tells_no_card_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "device_0").mkdir()
    (tmp_path / "device_0" / "info.json.0").write_text(text)
    assert device_info.beside(tmp_path / "mindstudio_profiler_output") is None


def test_another_card_than_the_one_that_is_named_is_told_and_the_named_one_is_taken(profile: Path) -> None:
    profile.write_text(counted(20, 1800))
    result = run(profile, "--hardware", "ascend_910b2")
    assert result.exit_code == 0
    assert "warning: does not look like Ascend 910B2: 20 cores with a matrix unit, 1,800 MHz" in result.stderr
    assert "it looks like ascend_910b3" in result.stderr
    assert "[card-of-profile]" in result.stderr
    assert hardware.load(str(profile.with_name("mine.json"))).name == "Ascend 910B2, calibrated"
    for named in ("ascend_910b3", "generic"):
        assert "does not look like" not in run(profile, "--hardware", named).output


def test_a_card_that_nothing_is_like_is_told_too(profile: Path) -> None:
    profile.write_text(counted(8, 1000))
    assert "it looks like no card that is known here" in run(profile, "--hardware", "ascend_910b3").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (counted(8, 1000), "looks like no card that is known here"),
        (counted(20, 1650), "may be of ascend_910b3, ascend_910b4"),
        (HEAD + 'x,Exp,AI_VECTOR_CORE,9,,"64,64",FLOAT,"64,64",FLOAT,,,,\n', "does not tell which card it is of"),
    ],
)
def test_a_card_that_is_not_recognised_is_asked_for(profile: Path, text: str, message: str) -> None:
    profile.write_text(text)
    result = run(profile)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "name the card with --hardware: ascend_910_93, ascend_910a, ascend_910b1" in result.stderr
    assert not profile.with_name("mine.json").exists()
    assert run(profile, "--hardware", "ascend_910b4").exit_code == 0


@pytest.mark.parametrize("column", ["Block Dim", "Block Num"])
def test_the_number_of_cores_is_found_under_both_names(profile: Path, column: str) -> None:
    profile.write_text(counted(24, 1800).replace("Block Dim", column))
    assert kernel_details.read(profile)[0].blocks == 24


def test_what_is_no_count_is_told_with_its_line(profile: Path) -> None:
    profile.write_text(counted(24, 1800).replace("y,Exp,AI_VECTOR_CORE,500,256", "y,Exp,AI_VECTOR_CORE,500,many"))
    result = run(profile)
    assert result.exit_code == 2
    assert ":6:" in result.output
    assert "many" in result.output
