"""PLANS -> FRONTIER: what a step takes at the least for every budget, and where the simple strategies lie.

Both modes have the same one, of what their own judges say of a plan: `plan/budgets.py` of graph mode,
`plan/pynative/budgets.py` of PyNative mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

AnyPlan = TypeVar("AnyPlan")  # a plan of either mode
FRACTION = 0.0002  # of a step, and of memory: less is no point of its own
_LOOSE = 1.02  # fragments that every plan has, of what it uses, as far as is known before any was placed
_ANY_BYTES = 1 << 63


@dataclass(frozen=True, kw_only=True, slots=True)
class PointEntry:
    """One entry of a plan. ``path``: "" for whole layers; ``prefetch``: None for a recompute."""

    path: str
    prefetch: int | None
    layers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint(Generic[AnyPlan]):
    """A plan and what it takes.

    Attributes:
        name: Of a simple strategy; "" of others.
        needed_bytes: The least budget of a card that it fits in: the most of all ranks, with fragments and all else
            that limits count. ``used_bytes``: the highest used peak.
        step_us: With the slower link; ``nominal_us``: with the link as told.
        host_bytes: Of the host that holds most.
        moved_bytes: In a step.
    """

    plan: AnyPlan
    name: str = ""
    entries: tuple[PointEntry, ...]
    needed_bytes: int
    used_bytes: int
    step_us: float
    nominal_us: float
    host_bytes: int
    moved_bytes: int


@dataclass(frozen=True, kw_only=True)
class Frontier(Generic[AnyPlan]):
    """What can be had.

    Attributes:
        points: Those that no other is better than, from the lowest memory and the longest step on.
        chosen: What was planned for ``budget_bytes``.
        simple: What people use today, whether it fits or not.
        nothing: Without swap and recompute.
        has_workspace: What a card needs counts the workspace of kernels.
    """

    points: tuple[FrontierPoint[AnyPlan], ...]
    chosen: FrontierPoint[AnyPlan]
    simple: tuple[FrontierPoint[AnyPlan], ...]
    nothing: FrontierPoint[AnyPlan]
    budget_bytes: int
    num_layers: int
    has_workspace: bool

    def change(self, point: FrontierPoint[AnyPlan]) -> float:
        """How much longer a step takes than without swap and recompute: 0.05 for 5 %."""
        return point.step_us / self.nothing.step_us - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate(Generic[AnyPlan]):
    """A plan that may lie on the front. ``bare_bytes``: the least budget that it could fit in, as far as is known
    without placing it."""

    plan: AnyPlan
    step_us: float
    num_entries: int
    bare_bytes: int


def front(
    candidates: Iterable[Candidate[AnyPlan]], needed_bytes: Callable[[AnyPlan], int]
) -> list[tuple[int, AnyPlan]]:
    """(bytes that it needs, plan) of what nothing else is better than, the slowest first. No two are as fast as one
    another. Where it is known that others hold less and are faster, where MindSpore's pool puts blocks is not asked, as
    that takes longest: a plan that would be better only with fewer fragments than any other has is not placed.
    ``needed_bytes``: of a plan, with fragments."""
    found: list[tuple[int, AnyPlan]] = []
    least, last_us, ratio = _ANY_BYTES, 0.0, _LOOSE
    for one in sorted(candidates, key=lambda one: (one.step_us, one.num_entries)):
        if one.bare_bytes * ratio >= least:
            continue
        needed = needed_bytes(one.plan)
        ratio = min(ratio, needed / one.bare_bytes)
        if needed >= least * (1 - FRACTION):
            continue
        if found and one.step_us <= last_us * (1 + FRACTION):
            found.pop()  # as fast, and needs less
        else:
            last_us = one.step_us
        least = needed
        found.append((needed, one.plan))
    return found[::-1]
