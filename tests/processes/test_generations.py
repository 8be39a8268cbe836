"""scripts/generations.py, as far as it can be tested without the frameworks: what counts as agreement, and the page."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from swapconf.upstream.facts import MEASURED_PAIRS
from swapconf.upstream.versions import OFFICIAL_PAIRS
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def script() -> Any:
    return import_module("generations")


@pytest.fixture
def result(script: Any) -> Any:
    moved = {"0": (2, 8192), "1": (4, 2105344)}
    seen = script.DryRun(peak_bytes=116_037_632, moved=moved, findings=())
    return script.Result(
        pair="1.9.0+2.9.0",
        stepped_aside=False,
        lines=6,
        expected=6,
        example=seen,
        swapconf=seen,
        plain=seen,
        explained=(0, 1),
        minutes=4.2,
        gigabytes=2.56,
    )


def test_all_three_have_to_agree(script: Any, result: Any) -> None:
    assert result.good
    less = script.DryRun(peak_bytes=1, moved={"0": (2, 8192), "1": (2, 8192)}, findings=())
    assert not replace(result, swapconf=less).agrees
    assert not replace(result, explained=(0,)).agrees
    assert not replace(result, swapconf=replace(result.swapconf, findings=("effect-without-decision: ...",))).agrees
    assert not replace(result, lines=5).good


def test_a_row_shows_what_was_seen(script: Any, result: Any) -> None:
    assert (
        script.row(result)
        == "| 1.9.0+2.9.0 | 6 of 6 | 116,037,632 B | 6 | 2 + 4, 2.0M | 2 + 4, 2.0M | 0, 1 | yes | 4 | 2.6 |"
    )
    assert "6 of 6, steps aside" in script.row(replace(result, stepped_aside=True))


def test_what_a_pair_left_is_read_as_it_was(script: Any, result: Any) -> None:
    import json
    from dataclasses import asdict

    assert script.load(json.loads(json.dumps(asdict(result)))) == result


def test_the_pairs_that_are_run_are_those_that_the_knowledge_names(script: Any) -> None:
    run = {(pair.mindformers, pair.mindspore) for pair in script.PAIRS}
    assert run <= set(MEASURED_PAIRS)
    assert {mindformers for mindformers, _ in run} == {name for name in OFFICIAL_PAIRS if name >= "1.6.0"}


def test_an_environment_alone_can_be_made(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(script, "make", lambda place: made.append(place.pair.name))
    monkeypatch.setattr(script, "measure", lambda place: pytest.fail(f"{place.pair.name} is run"))
    monkeypatch.setattr(sys, "argv", ["generations.sh", "--folder", str(tmp_path), "--install", "1.8.0+2.7.2"])
    assert script.main() == 0
    assert made == ["1.8.0+2.7.2"]


def test_help_makes_no_environment() -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "scripts/generations.sh"), "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: scripts/generations.sh")


def test_the_placeholder_says_what_it_is_and_has_every_name() -> None:
    code = (
        "import hyper_parallel; from hyper_parallel.core.fully_shard import fully_shard, Anything\n"
        "assert 'placeholder' in hyper_parallel.__doc__\nclass Mine(Anything): pass\nprint(Mine.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "scripts/placeholders")},
    )
    assert done.stdout == "Mine\n"
