"""CONFIG + STRATEGY -> FINDINGS: one rule, one module, its docstring the manual page.

Every module of this folder that has a ``RULE`` is one. It holds for graph mode (legacy and mcore) unless it says
otherwise in ``DIALECTS``.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from swapconf.config.config import Dialect
from swapconf.decide.rules.case import GRAPH_MODE, Case
from swapconf.words.findings import Finding, in_order

_MODULES = tuple(import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
RULES: tuple[ModuleType, ...] = tuple(module for module in _MODULES if hasattr(module, "RULE"))


def check_all(case: Case) -> tuple[Finding, ...]:
    """What every rule that holds for the dialect finds, in order."""
    return in_order(
        finding for rule in RULES if case.config.dialect in dialects_of(rule) for finding in rule.check(case)
    )


def dialects_of(rule: ModuleType) -> frozenset[Dialect]:
    """The dialects for which a rule holds."""
    declared: frozenset[Dialect] = getattr(rule, "DIALECTS", GRAPH_MODE)
    return declared
