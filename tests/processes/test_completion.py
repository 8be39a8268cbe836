"""What the tab key offers, asked of a real shell; and how little is loaded for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swapconf.study.pages import pages
from tests.helpers import ROOT
from tests.processes.terminal import environment, piped

HEAVY = ("numpy", "plotly", "jinja2", "mindspore", "mindformers", "jsonschema", "rich", "joblib")
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { echo "compopt ${*: -1}"; }  # only a shell with a terminal has one
_swapconf_completion swapconf
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder with the script, and with swapconf as it is called by the script."""
    (tmp_path / "script").write_bytes(piped("completion", "bash").stdout)
    program = tmp_path / "swapconf"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m swapconf "$@"\n')
    program.chmod(0o755)
    return tmp_path


def offered(shell: Path, *words: str) -> list[str]:
    """For the last of the words."""
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", str(shell / "script"), "swapconf", *words],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
        env=environment(PATH=f"{shell}{os.pathsep}{os.environ['PATH']}"),
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["c"], ["calibrate", "check", "compare", "completion"]),
        (["register"], ["register-path"]),
        (["check", "--f"], ["--format", "--fix"]),
        (["check", "--format", ""], ["text", "json", "github", "gitlab", "junit", "sarif"]),
        (["--lang", ""], ["en", "zh"]),
        (["--lang", "zh", "fam"], ["families"]),
        (["explain", "x.yaml", "--lang", "z"], ["zh"]),
        (["--version", "--l"], ["--lang"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["schema", "s"], ["swap_config"]),
        (["migrate", "a.yaml", "--to", ""], ["legacy", "mcore", "pynative"]),
        (["rules", "prefetch-u"], ["prefetch-underflow"]),
        (["rules", "hardware"], ["hardware-profile"]),
        (["timeline", "--hardware", "ascend_910b"], ["ascend_910b1", "ascend_910b2", "ascend_910b3", "ascend_910b4"]),
        (["whatif", "t", "--hardware", "mine"], ["compopt default"]),
        (["check", "conf"], ["compopt default"]),
        (["explain", "conf"], ["compopt default"]),
        (["whatif", "t", "--config", "conf"], ["compopt default"]),
        (["verify", "out"], ["compopt dirnames"]),
        (["run", "scr"], ["compopt default"]),
    ],
)
def test_bash_offers(shell: Path, words: list[str], expected: list[str]) -> None:
    assert offered(shell, *words) == expected


def test_bash_offers_every_rule(shell: Path) -> None:
    assert set(offered(shell, "rules", "")) > set(pages())


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_scripts_are_printed_and_can_be_read(name: str, tmp_path: Path) -> None:
    done = piped("completion", name)
    assert done.returncode == 0
    assert f"_SWAPCONF_COMPLETE={name}_complete".encode() in done.stdout
    if shutil.which(name):
        (tmp_path / "script").write_bytes(done.stdout)
        subprocess.run([name, "-n", str(tmp_path / "script")], check=True, timeout=60)


@pytest.mark.parametrize(
    "line",
    ["swapconf ", "swapconf rules op", "swapconf timeline --hardware a", "swapconf compare --", "swapconf dryrun --"],
)
def test_completion_loads_nothing_that_computes(line: str) -> None:
    code = (
        "import sys, contextlib\nfrom swapconf.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main([], prog_name='swapconf')\n"
        f"sys.exit(str(set(sys.modules) & {set(HEAVY)!r} or ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(_SWAPCONF_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1)),
    )
    assert done.stdout.startswith("plain,")
    assert done.stderr.strip() == ""
