"""docs/how-to/next-generation.md: its commands, one after the other, print what it shows, and need what it says."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import ROOT, scratch
from tests.mindspore import shown as page
from tests.mindspore import test_pynative as pair

pytestmark = [*pair.pytestmark, pytest.mark.mindspore, pytest.mark.thorough]
TEXT = (ROOT / "docs/how-to/next-generation.md").read_text(encoding="utf-8")
BLOCKS = page.blocks(TEXT[: TEXT.index("\n## 8. ")])  # the rest is of another release: test_next_parallel.py


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
        is_first = "dryrun configs" in command or "migrate" in command
        found[command] = page.run(command, folder, Path(sys.executable) if is_first else pair.PYTHON)
    return found


def test_it_shows_two_dry_runs_a_migration_an_explanation_and_two_plans() -> None:
    assert [command.split()[1] for command, _ in BLOCKS] == ["dryrun", "migrate", "explain", "dryrun", "plan", "plan"]


@pytest.mark.parametrize(("command", "shown"), [block for block in BLOCKS if "dryrun" not in block[0]])
def test_the_page_shows_what_its_commands_print(command: str, shown: str) -> None:
    assert page.from_where_it_shows(shown, printed()[command]) == shown.rstrip().splitlines()


@pytest.mark.parametrize(("command", "shown"), [block for block in BLOCKS if "dryrun" in block[0]])
def test_the_peaks_are_those_of_the_page(command: str, shown: str) -> None:
    assert page.is_like(shown, printed()[command]), printed()[command]
