"""PLAN THAT DOES NOT COMPILE -> ENTRIES: what of it MindSpore refuses, so that the next plan does without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from swapconf.config.config import Config
from swapconf.decide.layout import sequence_parts
from swapconf.decide.uncompiled import uncompiled
from swapconf.models.network import Network
from swapconf.plan.modes import KEEP, Atom, Plan, entries
from swapconf.upstream.facts import Versions

Refused: TypeAlias = frozenset[Atom]  # entries that together are not compiled


def known(config: Config, network: Network, versions: Versions) -> frozenset[Refused]:
    """What is refused whatever else a plan has: also by mindformers, whole layers where sequences come in parts."""
    paths = [path for template in network.templates for path in uncompiled(template, versions)]
    whole = [""] if sequence_parts(config, network) > 1 else []
    return frozenset(frozenset({Atom("recompute", path)}) for path in (*paths, *whole))


def has(plan: Plan, refused: Iterable[Refused]) -> bool:
    """Whether all entries of a refused set are in the plan."""
    mine = entries(plan)
    return any(together.issubset(mine) for together in refused)


def narrowed(plan: Plan, fails: Callable[[Plan], bool]) -> Refused:
    """Of a plan that fails a part that does, too, of which no entry can be left out. ``fails``: runs a plan, once for
    each entry."""
    for atom in entries(plan):
        less = tuple(mode - {atom} for mode in plan)
        if any(mode != KEEP for mode in less) and fails(less):
            plan = less
    return frozenset(entries(plan))
