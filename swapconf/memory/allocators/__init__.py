"""LIFETIMES -> PLACEMENT: allocators, one file each, all with ``place(lifetimes) -> Placement``.

The lower bound of all of them is ``lifetimes.used_peak_bytes``: no policy maps less than what is in use at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from swapconf.memory.allocators import expandable, lifetime, mindspore, offline
from swapconf.trace.lifetimes import Lifetimes, Placement

MEMORY_FRAGMENTATION = "MEMORY_FRAGMENTATION"

Policy: TypeAlias = Callable[[Lifetimes], Placement]


def policies(pool: mindspore.Pool = mindspore.TRAINER) -> dict[str, Policy]:
    """Every allocator by name. ``pool``: how MindSpore's own pool asks for pieces in the run that is looked at."""
    return {
        "mindspore": partial(mindspore.place, pool=pool),
        "lifetime": lifetime.place,
        "expandable": expandable.place,
        "offline": offline.place,
    }


POLICIES = policies()  # as in a run of mindformers' Trainer


def place(policy: str, lifetimes: Lifetimes, pool: mindspore.Pool) -> Placement:
    """Where a policy puts each block. ``pool``: as for `policies`."""
    return policies(pool)[policy](lifetimes)


def default_policy(environment: Mapping[str, str]) -> str:
    """The policy that a report is about: ``lifetime`` where MEMORY_FRAGMENTATION is 1, as for AscendSpeed."""
    return "lifetime" if environment.get(MEMORY_FRAGMENTATION) == "1" else "mindspore"
