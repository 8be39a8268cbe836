"""docs/how-to/next-generation.md: its commands, one after the other, print what it shows, and need what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache

import pytest

from swapconf.words.units import parse_bytes
from tests.helpers import ROOT, scratch
from tests.mindspore import test_pynative as pair

pytestmark = [*pair.pytestmark, pytest.mark.mindspore, pytest.mark.thorough]
PAGE = ROOT / "docs/how-to/next-generation.md"
BLOCKS = re.findall(r"^```text\n\$ (.*?)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
ROW = re.compile(r"completed +(?P<peak>\S+) .*  (?P<moved>-|\d+ tensors, \S+) +(?P<again>\d+) kernels", re.MULTILINE)


@cache
def printed() -> dict[str, str]:
    """What each command prints, in a folder of its own."""
    folder = scratch("next")
    (folder / "configs").symlink_to(ROOT / "configs")
    whole = (ROOT / "configs/pynative/qwen3.yaml").read_text(encoding="utf-8")
    eight = re.sub(r"^(  (?:data_parallel_shard|global_batch_size)): 1$", r"\1: 8", whole, flags=re.MULTILINE)
    (folder / "qwen3_fsdp8.yaml").write_text(eight, encoding="utf-8")
    found = {}
    for command, _ in BLOCKS:
        python = sys.executable if "dryrun configs" in command or "migrate" in command else str(pair.PYTHON)
        done = subprocess.run(
            [python, "-m", *shlex.split(command)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
            check=False,
        )
        found[command] = done.stdout
    return found


def test_it_shows_two_dry_runs_a_migration_an_explanation_and_two_plans() -> None:
    assert [command.split()[1] for command, _ in BLOCKS] == ["dryrun", "migrate", "explain", "dryrun", "plan", "plan"]


@pytest.mark.parametrize(("command", "shown"), [block for block in BLOCKS if "dryrun" not in block[0]])
def test_the_page_shows_what_its_commands_print(command: str, shown: str) -> None:
    here = printed()[command].rstrip().splitlines()
    if " plan " in command:  # which tells its findings and how far its dry runs are, too
        here = here[next(number for number, line in enumerate(here) if line.startswith("planned for")) :]
    assert here == shown.rstrip().splitlines()


@pytest.mark.parametrize(("command", "shown"), [block for block in BLOCKS if "dryrun" in block[0]])
def test_the_peaks_are_those_of_the_page(command: str, shown: str) -> None:
    told, here = ROW.search(shown), ROW.search(printed()[command])
    assert told is not None
    assert here is not None, printed()[command]
    assert here["moved"] == told["moved"]
    assert here["again"] == told["again"]
    assert parse_bytes(here["peak"]) == pytest.approx(parse_bytes(told["peak"]), rel=0.01)
