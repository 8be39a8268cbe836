"""``swapconf timeline`` as a user calls it."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from swapconf.timing import hardware_names
from swapconf.timing.cost import FIGURES
from tests.helpers import TRACES, invoke, unpacked
from tests.unit.trace_event_rules import loads, mistakes

SWAP = TRACES / "llama_l2_layerswap_n1"


def run(*words: str | Path) -> Result:
    return invoke("timeline", *words)


def record(*words: str | Path) -> dict[str, Any]:
    found = json.loads(run(SWAP, "--format", "json", *words).stdout)
    assert isinstance(found, dict)
    return found


def test_the_step_its_streams_and_what_is_exposed_are_shown() -> None:
    result = run(SWAP, "--hardware", "ascend_910b2")
    assert result.exit_code == 0
    for words in (
        "a step on Ascend 910B2 takes 12.20 ms, 10.67 to 14.60 (estimated 100%)",
        "generic profile: matrix_fp32_slowdown",
        "D2H",
        "H2D",
        "prefetches: 50",
    ):
        assert words in result.stdout


def test_the_record_adds_up() -> None:
    found = record()
    main_stream = max((row for row in found["streams"] if "compute" in row["does"]), key=lambda row: row["kernels"])
    assert main_stream["busy_us"] + sum(found["exposed_us"].values()) == pytest.approx(found["step_us"])
    assert sum(row["exposed_us"] for row in found["exposed"]) == pytest.approx(sum(found["exposed_us"].values()))
    assert all(row["busy_us"] + row["idle_us"] == pytest.approx(found["step_us"]) for row in found["streams"])
    assert len(found["prefetches"]) == 50
    assert {figure["source"] for figure in found["figures"].values()}


def test_cards_share_the_bandwidth_and_the_memory_of_their_host() -> None:
    shared = record("--cards-per-host", "8", "--host-bandwidth", "40")
    assert shared["host_link_gbps"] == 5
    assert shared["step_us"] > record()["step_us"]
    needed = 8 * shared["host_peak_bytes"]
    short = run(SWAP, "--cards-per-host", "8", "--host-memory", str(needed - 1))
    assert short.exit_code == 1
    assert "8 cards hold" in short.stderr
    assert run(SWAP, "--cards-per-host", "8", "--host-memory", str(needed)).exit_code == 0


def test_groups_of_more_cards_than_a_host_has_go_over_the_network() -> None:
    alone, whole = (record("--hardware", "ascend_910b2", "--cards-per-host", number) for number in ("2", "8"))
    assert alone["figures"]["cards_per_host"]["value"] == 2
    assert alone["figures"]["cards_per_host"]["source"] == "--cards-per-host"
    assert alone["exposed_us"]["communication"] > 1.5 * whole["exposed_us"]["communication"]
    assert whole["step_us"] == record("--hardware", "ascend_910b2")["step_us"]  # the card's hosts have 8


def test_a_profile_of_a_real_run_replaces_the_model(tmp_path: Path) -> None:
    (tmp_path / "op_statistic.csv").write_text("OP Type,Count,Total Time(us)\nMatMulV3,10,100000\n")
    found = record("--measured", tmp_path)
    assert found["share"]["calibrated"] > 0.5
    assert found["step_us"] > record()["step_us"]


@pytest.mark.parametrize(
    "words",
    [
        ("--hardware", "nothing"),
        ("--host-memory", "much"),
        ("--host-bandwidth", "0"),
        ("--cards-per-host", "0"),
        ("--measured", "tests"),
    ],
)
def test_what_cannot_be_read_ends_with_2(words: tuple[str, ...]) -> None:
    assert run(SWAP, *words).exit_code == 2


def test_the_help_names_every_profile() -> None:
    assert all(name in run("--help").stdout.replace("\n", " ") for name in hardware_names.names())


def test_the_step_is_written_as_the_profilers_view(tmp_path: Path) -> None:
    file = tmp_path / "trace_view.json"
    assert run(SWAP, "--trace-view", file).exit_code == 0
    events = loads(file.read_text())
    assert mistakes(events) == []
    end = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert float(end) == pytest.approx(record()["step_us"], abs=0.001)
    assert run(SWAP, "--trace-view", tmp_path / "no folder" / "view.json").exit_code == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--host-bandwidth", "nan"),
        ("--host-bandwidth", "inf"),
        ("--host-bandwidth", "-1"),
        ("--host-bandwidth", "0"),
        ("--host-bandwidth", "1e-308"),
        ("--host-bandwidth", "ten"),
        ("--cards-per-host", "1" + "0" * 20),
        ("--cards-per-host", "0"),
        ("--host-memory", "5"),
        ("--host-memory", "nan"),
    ],
)
def test_numbers_that_no_machine_has_are_refused(option: str, value: str) -> None:
    result = run(SWAP, option, value)
    assert result.exit_code == 2
    assert option in result.output
    assert value in result.output


@pytest.mark.parametrize("value", ["0.001", "1000000000"])
def test_every_figure_at_its_bounds_gives_a_time(tmp_path: Path, value: str) -> None:
    told = {"name": "x", "figures": {name: {"value": float(value), "source": "y"} for name in FIGURES}}
    (tmp_path / "card.json").write_text(json.dumps(told))
    found = record("--hardware", tmp_path / "card.json", "--host-bandwidth", value, "--cards-per-host", "10000")
    assert isfinite(found["step_us"])
    assert found["step_us"] > 0
    assert all(isfinite(exposed) for exposed in found["exposed_us"].values())


def test_a_pynative_run_has_no_timeline_and_it_is_said_why() -> None:
    result = run(unpacked(TRACES / "pynative" / "qwen3_l2_none"))
    assert result.exit_code == 2
    assert "as Python calls them" in result.output
    assert "swapconf memory" in result.output
