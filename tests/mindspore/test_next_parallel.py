"""docs/how-to/next-generation.md, its walk through a parallel layout: each command prints what the page shows."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.helpers import ROOT, scratch
from tests.mindspore import shown as page
from tests.mindspore import test_pynative_parallel as newer

pytestmark = newer.pytestmark
TEXT = (ROOT / "docs/how-to/next-generation.md").read_text(encoding="utf-8")
BLOCKS = page.blocks(TEXT[TEXT.index("\n## 8. ") : TEXT.index("\n## 9. ")])


@cache
def printed() -> dict[str, str]:
    """What each command prints, in a folder of its own. The page says what is changed in the YAML, and when."""
    folder = scratch("next-parallel")
    yaml = folder / "qwen3_tp2.yaml"
    whole = (ROOT / "configs/pynative/qwen3.yaml").read_text(encoding="utf-8")
    keys = "data_parallel_shard|tensor_parallel|global_batch_size"
    yaml.write_text(re.sub(rf"^(  (?:{keys})): 1$", r"\1: 2", whole, flags=re.MULTILINE), encoding="utf-8")
    found = {}
    for command, _ in BLOCKS:
        found[command] = page.run(command, folder, newer.NEWER)
        if " check " in command:
            told = yaml.read_text(encoding="utf-8")
            key = "  tensor_parallel: 2\n"
            yaml.write_text(told.replace(key, f"{key}  sequence_parallel: True\n"), encoding="utf-8")
    return found


def test_it_goes_from_a_finding_to_a_plan() -> None:
    assert [command.split()[1] for command, _ in BLOCKS] == ["check", "dryrun", "whatif", "plan"]


@pytest.mark.parametrize(("command", "shown"), [block for block in BLOCKS if "dryrun" not in block[0]])
def test_the_page_shows_what_its_commands_print(command: str, shown: str) -> None:
    assert page.from_where_it_shows(shown, printed()[command]) == shown.rstrip().splitlines()


@pytest.mark.parametrize(("command", "shown"), [block for block in BLOCKS if "dryrun" in block[0]])
def test_the_peak_is_that_of_the_page(command: str, shown: str) -> None:
    assert page.is_like(shown, printed()[command]), printed()[command]
