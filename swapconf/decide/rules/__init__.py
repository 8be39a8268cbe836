"""CONFIG + STRATEGY -> FINDINGS: one rule, one module, its docstring the manual page.

Every module of this folder that has a ``RULE`` is one. It holds for graph mode (legacy and mcore) unless it says
otherwise in ``DIALECTS``. The name of one that holds for PyNative alone begins with ``pynative_``, so that the check of
another config loads neither it nor what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from swapconf.config.config import Dialect
from swapconf.decide.rules.case import GRAPH_MODE, Case
from swapconf.words.findings import Finding, in_order

PYNATIVE_ALONE = "pynative_"

_NAMES = tuple(found.name for found in iter_modules(__path__))


def check_all(case: Case) -> tuple[Finding, ...]:
    """What every rule that holds for the dialect finds, in order."""
    return in_order(finding for rule in rules_of(case.config.dialect) for finding in rule.check(case))


@cache
def every_rule() -> tuple[ModuleType, ...]:
    """The rules of all dialects."""
    return _rules(_NAMES)


@cache
def rules_of(dialect: Dialect) -> tuple[ModuleType, ...]:
    """The rules that hold for a dialect."""
    names = (name for name in _NAMES if dialect is Dialect.PYNATIVE or not name.startswith(PYNATIVE_ALONE))
    return tuple(rule for rule in _rules(names) if dialect in dialects_of(rule))


def dialects_of(rule: ModuleType) -> frozenset[Dialect]:
    """The dialects for which a rule holds."""
    declared: frozenset[Dialect] = getattr(rule, "DIALECTS", GRAPH_MODE)
    return declared


def _rules(names: Iterable[str]) -> tuple[ModuleType, ...]:
    modules = (import_module(f"{__name__}.{name}") for name in names)
    return tuple(module for module in modules if hasattr(module, "RULE"))
