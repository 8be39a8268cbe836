"""The commands of docs/tutorial.md, run one after the other, print what the page shows."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mindspore

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from build_tutorial import PAGE, lasting, rendered  # noqa: E402


def test_the_tutorial_shows_what_its_commands_print(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown, printed = lasting(text).splitlines(), lasting(rendered(text, tmp_path)).splitlines()
    assert printed == shown, "\n".join(difflib.unified_diff(shown, printed, "shown", "printed", lineterm=""))
