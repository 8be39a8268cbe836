"""RULES -> PAGES: the manual page of every rule that a check can report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from swapconf.config.reading_rules import CHECKING, READING, STRUCTURE
from swapconf.decide.rules import RULES
from swapconf.words import docstrings


@cache
def pages() -> Mapping[str, str]:
    """By rule: ``name: one sentence``, and for most rules more below it."""
    tables = {**READING, **STRUCTURE, **CHECKING}
    told = {name: f"{name}: {text} ({severity})" for name, (severity, text) in tables.items()}
    return {**told, **{module.RULE: docstrings.of(module) for module in RULES}}
