"""What-if and MindSpore's pool: the unit that the question's YAML sets, and traces whose pool is not understood."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from swapconf.whatif.question import Question
from swapconf.words.units import GIB
from tests.helpers import TRACES, golden
from tests.unit.test_whatif import study

LIMIT = "context.max_device_memory=58GB"


def question(folder: Path, *changes: str) -> Question:
    return Question(folder, study(*changes))


@pytest.mark.parametrize(
    ("changes", "reserved"),
    [
        ((), 3 * GIB),
        ((LIMIT,), 3 * GIB),
        ((LIMIT, "context.mempool_block_size=8GB"), 9 * GIB),
        (("context.mempool_block_size=8GB",), 3 * GIB),
    ],
)
def test_the_unit_of_the_pool_is_that_of_the_question(changes: tuple[str, ...], reserved: int) -> None:
    """One persistent piece of 1 GiB and one of a unit; mindformers passes the unit only along with a limit."""
    assert question(TRACES / "llama_l2_none", *changes).answer().placement.reserved_bytes == reserved


def test_the_unit_of_the_trace_is_left_behind_where_the_question_sets_none(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0"
    shutil.copytree(TRACES / "llama_l2_none", folder)
    settings = study().document.root.plain()
    assert isinstance(settings, dict)
    assert isinstance(settings["context"], dict)
    context = {**settings["context"], "max_device_memory": "58GB", "mempool_block_size": "8GB"}
    (folder / "run.json").write_text(json.dumps({"settings": {**settings, "context": context}}))
    assert question(folder, LIMIT).answer().placement.reserved_bytes == 3 * GIB
    again = question(folder, LIMIT, "context.mempool_block_size=8GB")
    assert again.answer().placement.reserved_bytes == 9 * GIB


def test_a_pool_that_does_not_follow_the_rules_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0"
    shutil.copytree(TRACES / "llama_l2_none", folder)
    assert "pool-unexplained" not in [finding.rule for finding in question(folder).findings]
    lines = (folder / "memory_block.csv").read_text().splitlines()
    cells = lines[600].split(",")
    cells[2] = hex(int(cells[2], 16) + 512)
    (folder / "memory_block.csv").write_text("\n".join([*lines[:600], ",".join(cells), *lines[601:], ""]))
    (told,) = [finding for finding in question(folder).findings if finding.rule == "pool-unexplained"]
    count = sum(not block.on_host for block in golden("llama_l2_none").blocks)
    assert f"only {count - 1} of {count} addresses" in told.message
