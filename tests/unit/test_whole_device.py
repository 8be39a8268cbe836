"""What a card holds beside MindSpore's pool: parts with their ranges, told by commands, and counted by budgets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import swapconf
from swapconf.cli.main import main
from swapconf.config import yaml_config
from swapconf.config.config import Config
from swapconf.config.yaml_document import parse
from swapconf.memory.whole_device import Beside, Part, PartName, as_record, device_line
from swapconf.memory.with_workspace import grow, workspace
from swapconf.study.beside import beside
from swapconf.timing import hardware
from swapconf.timing.cost import Machine
from swapconf.trace import trace_folder
from swapconf.words.units import GIB, MIB
from tests.helpers import ROOT

TRACE = ROOT / "tests/traces/llama_l2_none"
YAML = ROOT / "tests/traces/llama.yaml"


def config(text: str) -> Config:
    found, _ = yaml_config.from_document(parse(text, "train.yaml"))
    return found


def parts(text: str = "context:\n  mode: 0\n", card: str = "ascend_910b2", **environment: str) -> dict[PartName, Part]:
    trace = trace_folder.read(TRACE, rank=0)
    found = beside(trace, config(text), Machine(hardware=hardware.load(card)), environment)
    return {part.name: part for part in found.parts}


def run(*words: str | Path) -> Any:
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_part_has_a_range_and_an_origin() -> None:
    for part in parts("training:\n  steps: 1\n").values():
        assert 0 <= part.least_bytes <= part.middle_bytes <= part.most_bytes
        assert part.origin


def test_buffers_of_hccl_are_known_and_idle_card_and_runtime_are_ranges() -> None:
    found = parts()
    groups = len({kernel.group for kernel in trace_folder.read(TRACE, rank=0).step if kernel.group})
    hccl = found[PartName.COMMUNICATION]
    assert (hccl.least_bytes, hccl.most_bytes) == (400 * MIB * groups, 400 * MIB * groups)
    assert parts(HCCL_BUFFSIZE="100")[PartName.COMMUNICATION].most_bytes == 200 * MIB * groups
    assert found[PartName.IDLE].least_bytes < found[PartName.IDLE].most_bytes
    assert found[PartName.RUNTIME].least_bytes < found[PartName.RUNTIME].most_bytes


def test_workspace_is_a_part_only_where_the_pool_has_none() -> None:
    trace = trace_folder.read(TRACE, rank=0)
    part = parts()[PartName.WORKSPACE]
    assert (part.least_bytes, part.most_bytes) == (0, workspace(trace).size_bytes.max())
    assert parts(card="ascend_910b4")[PartName.WORKSPACE].most_bytes < part.most_bytes
    (first, *_) = beside(grow(trace).trace, None, None, {}).parts
    assert (first.name, first.most_bytes) == (PartName.WORKSPACE, 0)
    (first, *_) = beside(replace(trace, tasks=()), None, None, {}).parts
    assert first.most_bytes == 0


def test_pools_of_other_ranks_and_moments_count_in_pynative_mode_only() -> None:
    assert PartName.ELSEWHERE not in parts()
    assert PartName.ELSEWHERE in parts("context:\n  mode: 1\n")
    assert beside(trace_folder.read(TRACE, rank=0), None, None, {}).parts[-1].name is PartName.RUNTIME


def test_the_room_of_a_pool_is_what_the_most_of_all_else_leaves() -> None:
    def part(name: PartName, *sizes: int) -> Part:
        least, middle, most = sizes
        return Part(name=name, least_bytes=least, middle_bytes=middle, most_bytes=most, origin="known")

    held = Beside(parts=(part(PartName.IDLE, 3, 4, 5), part(PartName.RUNTIME, 1, 1, 2)), card_bytes=64)
    assert (held.most_bytes, held.room_bytes) == (7, 57)
    assert replace(held, card_bytes=5).room_bytes == 0
    whole = held.whole(50, "a dry run")
    assert (whole.least_bytes, whole.middle_bytes, whole.most_bytes) == (54, 55, 57)
    assert as_record(whole)["headroom_bytes"] == 7
    assert "more than" not in device_line(whole, "it")
    assert "at most 3B more than the 64B of it" in device_line(held.whole(60, ""), "it")


def test_with_virtual_memory_a_pool_takes_what_is_used_to_what_it_takes_with_fragments() -> None:
    held = Beside(parts=(), card_bytes=64)
    (pool,) = held.whole(50, "", 40).parts
    assert (pool.least_bytes, pool.middle_bytes, pool.most_bytes) == (40, 40, 50)
    assert held.whole(50, "", 60).least_bytes == 50
    assert replace(held, joins_fragments=False).whole(50, "", 40).least_bytes == 50


@pytest.mark.parametrize(
    ("setting", "joins"),
    [
        ("", True),
        ("enable_vmm:True", True),
        ("vmm_align_size:2MB,enable_vmm:False", False),
        ("enable_vmm: false", False),
    ],
)
def test_the_environment_tells_whether_there_is_virtual_memory(setting: str, joins: bool) -> None:
    trace = trace_folder.read(TRACE, rank=0)
    assert beside(trace, None, None, {"MS_ALLOC_CONF": setting}).joins_fragments is joins


def test_whatif_tells_the_whole_card() -> None:
    words = ("whatif", TRACE, "--config", YAML)
    found = json.loads(run(*words, "--format", "json", "--hardware", "ascend_910b4"))["device"]
    assert found["card_bytes"] == 32 * GIB
    assert [part["part"] for part in found["parts"]] == ["pool", "workspace", "communication", "idle", "runtime"]
    for which in ("least_bytes", "middle_bytes", "most_bytes"):
        assert found[which] == sum(part[which] for part in found["parts"])
    assert "a card holds " in run(*words)


def test_compare_tells_the_most_of_the_whole_card() -> None:
    (found,) = json.loads(run("compare", TRACE, "--format", "json", "--hardware", "ascend_910b2"))
    figures = found["overall"]["figures"]
    assert figures["device_most_bytes"] > figures["with_fragments_peak_bytes"] + 5 * GIB


def test_a_plan_tells_the_whole_card_and_what_its_workspace_is_for() -> None:
    plan = ("plan", YAML, "--from", TRACE, "--hardware", "ascend_910b4", "--budget", "1GB", "--cann", "8.5")
    found = json.loads(run(*plan, "--format", "json"))
    assert found["device"]["card_bytes"] == 32 * GIB
    assert found["device"]["parts"][0]["most_bytes"] == found["ranks"][0]["with_fragments_peak_bytes"]
    text = run(*plan)
    assert "workspace is that of CANN 8.5, an Atlas A2 with 20 cube cores, " in text
    assert "under the plan a card holds " in text


def test_best_plan_leaves_as_much_as_the_command() -> None:
    limits = swapconf.best_plan(YAML, [TRACE], budget="640GB", card="ascend_910b2").judge.limits
    more = [part.most_bytes for name, part in parts().items() if name is not PartName.WORKSPACE]
    assert limits.usable_bytes == 64 * GIB - sum(more)
    assert swapconf.best_plan(YAML, [TRACE], budget="1GB").judge.limits.usable_bytes == GIB


@pytest.mark.parametrize(("budget", "reaches"), [("40GB", False), ("64GB", True)])
def test_a_plan_leaves_what_a_card_holds_at_most_beside_the_pool(budget: str, reaches: bool) -> None:
    plan = ("plan", YAML, "--from", TRACE, "--hardware", "ascend_910b2", "--format", "json", "--budget", budget)
    told, alone = json.loads(run(*plan)), json.loads(run(*plan, "--beside", "0"))
    more = [part.most_bytes for name, part in parts().items() if name is not PartName.WORKSPACE]
    assert alone["usable_bytes"] - told["usable_bytes"] == (sum(more) if reaches else 0)
    assert told["needed_bytes"] == alone["needed_bytes"]  # whatever the budget
    text = run(*plan[:-4], "--budget", budget)
    assert ("less than the budget of" in text) == reaches
