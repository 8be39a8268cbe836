"""LIFETIMES -> PLACEMENT: allocators, one file each, all with ``place(lifetimes) -> Placement``.

The lower bound of all of them is ``lifetimes.used_peak_bytes``: no policy maps less than what is in use at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swapconf.simulate.policies import expandable, lifetime, mindspore, offline
from swapconf.simulation import Lifetimes, Placement

MEMORY_FRAGMENTATION = "MEMORY_FRAGMENTATION"

POLICIES: dict[str, Callable[[Lifetimes], Placement]] = {
    "mindspore": mindspore.place,
    "lifetime": lifetime.place,
    "expandable": expandable.place,
    "offline": offline.place,
}


def place(policy: str, lifetimes: Lifetimes, pool: mindspore.Pool) -> Placement:
    """Where a policy puts each block. ``pool``: how MindSpore's own pool asks for pieces."""
    return mindspore.place(lifetimes, pool) if policy == "mindspore" else POLICIES[policy](lifetimes)


def default_policy(environment: Mapping[str, str]) -> str:
    """The policy that a report is about: ``lifetime`` where MEMORY_FRAGMENTATION is 1, as for AscendSpeed."""
    return "lifetime" if environment.get(MEMORY_FRAGMENTATION) == "1" else "mindspore"
