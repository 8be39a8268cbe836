"""scripts/demo.sh and its kin, as far as they can be tested without mindspore."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swapconf.decide import log_lines
from swapconf.study.study import study_file
from swapconf.upstream.facts import Versions
from tests.helpers import ROOT

DEMO = runpy.run_path(str(ROOT / "scripts" / "demo.py"))


@pytest.mark.parametrize("example", DEMO["EXAMPLES"], ids=lambda example: example.config)
def test_the_demo_expects_what_swapconf_explains(example: Any) -> None:
    strategy = study_file(ROOT / "configs" / "small" / example.config, Versions(), {}).strategy
    assert strategy is not None
    assert example.lines == tuple(line for entry in strategy.layers for line in log_lines.lines(entry, True))


def test_the_loss_of_each_step_is_read() -> None:
    line = "INFO - { Epoch:[  1/  1], step:[    2/   10], loss:[5.978793/6.108990], per_step_time: 1076ms, lr: 0.001"
    assert DEMO["LOSS"].findall(f"{line}\n{line}") == ["5.978793", "5.978793"]


def test_the_demo_is_not_turned_into_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_SIMULATION_LEVEL", "1")
    monkeypatch.setenv("SWAPCONF_DISABLE", "1")
    monkeypatch.setenv("HOME", "/somewhere")
    environment = DEMO["clean_environment"]()
    assert "HOME" in environment
    assert not {"MS_SIMULATION_LEVEL", "SWAPCONF_DISABLE"} & set(environment)


@pytest.mark.parametrize("script", ["demo.sh", "test.sh"])
def test_an_interpreter_that_is_too_old_is_refused(script: str, tmp_path: Path) -> None:
    old = tmp_path / "old python"
    old.write_text("#!/bin/sh\necho 3.9 /usr\n")
    old.chmod(0o755)
    done = start(script, PYTHON=str(old))
    assert done.returncode == 1
    assert f"'{old}' is Python 3.9, but 3.10 to 3.12 is needed" in done.stderr


@pytest.mark.parametrize("script", ["demo.sh", "test.sh"])
def test_an_interpreter_that_does_not_exist_is_named(script: str) -> None:
    done = start(script, PYTHON="no-such-python")
    assert done.returncode == 1
    assert "there is no working interpreter 'no-such-python'" in done.stderr


@pytest.mark.parametrize("script", ["demo.sh", "test.sh"])
def test_help_installs_nothing(script: str) -> None:
    done = start(script, "--help", PYTHON="no-such-python")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: ")


def start(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "SWAPCONF_PYTHON"}
    return subprocess.run(
        ["bash", str(ROOT / "scripts" / script), *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
