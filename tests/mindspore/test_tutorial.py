"""The commands of docs/tutorial.md, run one after the other, print what the page shows."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from build_tutorial import PAGE, lasting, rendered

pytestmark = [pytest.mark.mindspore, pytest.mark.thorough]


def test_the_tutorial_shows_what_its_commands_print(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown, printed = lasting(text).splitlines(), lasting(rendered(text, tmp_path)).splitlines()
    assert printed == shown, "\n".join(difflib.unified_diff(shown, printed, "shown", "printed", lineterm=""))
