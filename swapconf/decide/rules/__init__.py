"""CONFIG + STRATEGY -> FINDINGS: one rule, one module, its docstring the manual page. Registration is this list.

A rule holds for graph mode (legacy and mcore) unless its module says otherwise in ``DIALECTS``.
"""

from __future__ import annotations

from types import ModuleType

from swapconf.config.config import Dialect
from swapconf.decide.rules import (
    bad_pattern,
    catalog_version,
    default_prefetch_ignored,
    default_swap_flash,
    entry_shadowed,
    layer_range,
    layer_twice,
    lazy_inline,
    lazy_inline_env,
    mcore,
    memory_level,
    op_moves_nothing,
    op_no_match,
    op_unescaped_dot,
    plain_refuses,
    prefetch_too_large,
    pynative_bad_pattern,
    pynative_not_predicted,
    pynative_overlap,
    pynative_prefetch,
    pynative_runtime,
    r1_recompute_wins,
    r2_recomputed_consumer,
    r3_list_meaning,
    recompute_count,
    recompute_nothing,
    recompute_void,
    runtime_limits,
    stage_offset,
    swap_is_off,
    swap_nothing,
    unknown_family,
    version_not_measured,
    version_pair,
    version_steps_aside,
)
from swapconf.decide.rules.case import GRAPH_MODE, Case
from swapconf.words.findings import Finding, in_order

RULES: tuple[ModuleType, ...] = (
    r1_recompute_wins, r2_recomputed_consumer, r3_list_meaning,
    bad_pattern, op_no_match, op_unescaped_dot, op_moves_nothing, layer_range, layer_twice, entry_shadowed,
    swap_nothing, prefetch_too_large, default_prefetch_ignored, swap_is_off, default_swap_flash,
    memory_level, lazy_inline, lazy_inline_env, runtime_limits, mcore, plain_refuses,
    recompute_nothing, recompute_void, recompute_count, stage_offset, unknown_family,
    pynative_prefetch, pynative_overlap, pynative_bad_pattern, pynative_runtime, pynative_not_predicted,
    version_pair, version_not_measured, version_steps_aside, catalog_version,
)


def check_all(case: Case) -> tuple[Finding, ...]:
    """What every rule that holds for the dialect finds, in order."""
    return in_order(finding for rule in RULES if case.config.dialect in dialects_of(rule)
                    for finding in rule.check(case))


def dialects_of(rule: ModuleType) -> frozenset[Dialect]:
    """The dialects for which a rule holds."""
    declared: frozenset[Dialect] = getattr(rule, "DIALECTS", GRAPH_MODE)
    return declared
