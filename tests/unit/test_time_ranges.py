"""Times are shown with their range: in words, in JSON, of steps and of what the main stream waits for."""

from __future__ import annotations

import json
import re

import pytest

from swapconf.compare import folders, traced
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.words.units import show_ms, show_range
from tests.helpers import TRACES, golden, invoke

NONE, SWAP = TRACES / "llama_l2_none", TRACES / "llama_l2_layerswap_n1"
ASKED = ("whatif", NONE, "--config", TRACES / "llama.yaml", "--hardware", "ascend_910b2")


@pytest.mark.parametrize(
    ("times_us", "words"),
    [
        ((1_453_000, 1_190_000, 1_820_400), "1453 ms, 1190 to 1820"),
        ((12_345, 9_000, 20_000), "12.35 ms, 9.00 to 20.00"),
        ((1.5, 1, 2), "0.002 ms, 0.001 to 0.002"),
        ((0, 0, 0), "0.000 ms, 0.000 to 0.000"),
    ],
)
def test_a_range_has_the_digits_of_its_time(times_us: tuple[float, float, float], words: str) -> None:
    assert show_range(*times_us) == words
    assert len(show_ms(*times_us)) == 3


def test_the_range_of_a_step_is_around_it() -> None:
    found = json.loads(invoke("timeline", SWAP, "--hardware", "ascend_910b2", "--format", "json").stdout)
    assert (
        0.5 * found["step_us"] < found["step_low_us"] < found["step_us"] < found["step_high_us"] < 2 * found["step_us"]
    )


def test_a_prediction_has_a_range_for_all_that_it_tells() -> None:
    found = json.loads(invoke(*ASKED, "--format", "json").stdout)["time"]
    for side in ("baseline", "predicted"):
        for name, figure in found[side].items():
            assert figure["low"] <= figure["value"] <= figure["high"], (side, name)
    copies = found["predicted"]["exposed_copy_us"]
    assert copies["low"] < 0.9 * copies["value"]
    assert copies["high"] > 1.1 * copies["value"]


def test_the_table_of_a_prediction_shows_the_range() -> None:
    text = invoke(*ASKED).stdout
    assert "predicted range ms" in text
    step = next(line for line in text.splitlines() if line.startswith("step "))
    assert re.search(r"\d to \d", step)


def test_a_comparison_tells_how_far_real_times_may_be() -> None:
    machine = Machine(hardware=hardware.load("ascend_910b2"))
    found = traced.of_traces("one", [folders.of_trace(SWAP, golden("llama_l2_layerswap_n1"))], machine)
    assert "real times are expected from 0." in found.origins["time"]


def test_no_time_is_called_a_lower_bound() -> None:
    for words in (("timeline", SWAP), ASKED):
        assert "lower bound" not in invoke(*words).stdout
