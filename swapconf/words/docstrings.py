"""DOCSTRINGS that are shown to people: pages of rules and helps of commands, also where Python drops them (-OO)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def of(documented: ModuleType | Callable[..., Any]) -> str:
    """The docstring of a module or of a function at the top of one, indented as `inspect.getdoc` does; "" where there
    is none."""
    if documented.__doc__:
        return inspect.getdoc(documented) or ""
    if isinstance(documented, ModuleType):
        file = documented.__file__
    else:
        documented = inspect.unwrap(documented)
        file = documented.__code__.co_filename
    try:
        tree = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""  # only the compiled file was installed
    if isinstance(documented, ModuleType):
        return ast.get_docstring(tree) or ""
    return next(
        (
            ast.get_docstring(node) or ""
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name == documented.__name__
        ),
        "",
    )
