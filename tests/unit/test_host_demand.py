"""What swap asks of a host that several cards share, and when binding to its memory is advised."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.timing.host_demand import HostDemand, host_line
from tests.helpers import ROOT

TRACE = ROOT / "tests/traces/llama_l2_none"
YAML = ROOT / "tests/traces/llama.yaml"
FEW = HostDemand(
    cards=8, to_host_gbps=2.0, to_device_gbps=3.0, pinned_bytes=1000, bound_gbps=200, unbound_gbps=68, step_us=2000
)


def whatif(*words: str) -> str:
    line = ["whatif", str(TRACE), "--config", str(YAML), *words]
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 0, result.output
    return result.stdout


def record(*words: str) -> Any:
    return json.loads(whatif("--format", "json", *words))["host"]


def test_all_cards_ask_in_the_direction_that_needs_more() -> None:
    assert FEW.host_gbps == 24.0
    assert not FEW.needs_binding
    assert "8 cards of a host 24.0 GB/s in one direction, 7.8K pinned" in host_line(FEW)
    assert "bind_numa" not in host_line(FEW)


def test_binding_is_advised_where_the_host_may_not_give_it() -> None:
    many = replace(FEW, to_device_gbps=9.0)
    assert many.needs_binding
    line = host_line(many)
    assert "no more than 68.0 of its 200.0 GB/s" in line
    assert "`msrun --bind_numa` (MindSpore 2.9 and newer)" in line
    assert "a step take 9.0 ms instead of 2.0: start with" in host_line(replace(many, unbound_step_us=9000.0))


def test_whatif_tells_what_the_copies_of_a_step_ask_for() -> None:
    found = record("--hardware", "ascend_910b2")
    time = json.loads(whatif("--format", "json", "--hardware", "ascend_910b2"))
    moved, step_us = time["moved_bytes_per_step"], time["time"]["predicted"]["step_us"]["value"]
    assert found["cards"] == 8  # of a host, all of which the job has
    for rate in (found["to_host_gbps"], found["to_device_gbps"]):
        assert moved / step_us / 1000 < rate < time["time"]["host_link_gbps"]
    assert found["host_gbps"] == pytest.approx(8 * max(found["to_host_gbps"], found["to_device_gbps"]))
    assert found["bound_gbps"] == pytest.approx(8 * time["time"]["host_link_gbps"])
    assert found["needs_binding"]
    assert found["step_us"] == step_us < found["unbound_step_us"]
    slower = ("--hardware", "ascend_910b2", "--cards-per-host", "8", "--host-bandwidth", str(found["unbound_gbps"]))
    again = json.loads(whatif("--format", "json", *slower))
    assert again["time"]["predicted"]["step_us"]["value"] == pytest.approx(found["unbound_step_us"])
    assert "--bind_numa" in whatif("--hardware", "ascend_910b2")


def test_fewer_cards_and_a_slower_host_count() -> None:
    assert record("--hardware", "ascend_910b2", "--cards-per-host", "2")["cards"] == 2
    assert record("--hardware", "ascend_910b2", "--host-bandwidth", "50")["bound_gbps"] == 50


def test_without_copies_or_times_nothing_is_asked_of_the_host() -> None:
    assert record() is None
    assert record("--hardware", "ascend_910b2", "--set", "swap_config.swap=False") is None
    assert "pinned" not in whatif()
