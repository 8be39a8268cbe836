"""RULES -> PAGES: the manual page of every rule that a check can report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from swapconf.decide.rules import every_rule
from swapconf.words import docstrings
from swapconf.words.rules import CHECKING, READING, STRUCTURE, page


@cache
def pages() -> Mapping[str, str]:
    """By rule: ``name: one sentence``, and for most rules more below it."""
    told = {name: page(name, rule) for name, rule in {**READING, **STRUCTURE, **CHECKING}.items()}
    return {**told, **{module.RULE: docstrings.of(module) for module in every_rule()}}
