"""What the scripts take from the package is there; they run for minutes, and not here."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.parametrize("file", sorted(SCRIPTS.rglob("*.py")), ids=lambda file: str(file.relative_to(SCRIPTS)))
def test_every_name_exists(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "swapconf":
            module = import_module(node.module or "")
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or import_module(f"{node.module}.{name}"), name
