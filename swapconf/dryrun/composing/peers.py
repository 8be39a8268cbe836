"""TRACE of one stage -> the same, exchanging data with the ranks that another layout has in their places.

A group spreads over stages, over data parallelism, or over the ranks that share a layer; where it had all of a kind, it
has all of the other layout's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from swapconf.config.cluster import Cluster
from swapconf.trace.trace import POINT_TO_POINT, Task, Trace

_RANKS, _GROUP, _PEERS = "comm_rank", "group", ("src_rank", "dst_rank")
_WORLD, _HASHED = (
    "hccl_world_group",
    48,
)  # letters of a name, of the SHA-256 of its ranks (measured with MindSpore 2.9.0)
_OF_STAGES = re.compile(rf"[0-9a-f]{{{_HASHED}}}(Send)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """The first rank of stage ``stage`` of ``cluster``."""

    cluster: Cluster
    stage: int

    @property
    def sharing(self) -> int:
        """Ranks that share one copy of a stage."""
        return self.cluster.num_devices // self.cluster.num_stages // self.cluster.data_parallel

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """(stage, copy, share)"""
        copies, share = divmod(rank, self.sharing)
        return (*divmod(copies, self.cluster.data_parallel), share)

    def rank(self, stage: int, copy: int, share: int) -> int:
        return (stage * self.cluster.data_parallel + copy) * self.sharing + share


def moved(trace: Trace, here: Seat, there: Seat) -> Trace:
    """``here``: of the run, ``there``: of the trace."""
    if here == there:
        return trace
    groups: dict[str, str] = {}
    tasks = tuple(_moved(task, here, there, groups) for task in trace.tasks)
    names: Mapping[str, str] = groups
    kernels = tuple(replace(kernel, group=names.get(kernel.group, kernel.group)) for kernel in trace.kernels)
    return replace(trace, rank=there.rank(there.stage, 0, 0), tasks=tasks, kernels=kernels)


def _moved(task: Task, here: Seat, there: Seat, groups: dict[str, str]) -> Task:
    known = dict(task.attributes)
    ranks = [int(word) for word in known.get(_RANKS, "").split() if word.isdigit()]
    if not ranks or _GROUP not in known:
        return task
    new = _group(ranks, here, there)
    group = groups.setdefault(known[_GROUP], _name(known[_GROUP], new, task.primitive in POINT_TO_POINT))
    changed = {_RANKS: " ".join(map(str, new)), _GROUP: group}
    changed |= {key: str(_peer(int(known[key]), here, there)) for key in _PEERS if known.get(key, "").isdigit()}
    return replace(task, attributes=tuple((key, changed.get(key, value)) for key, value in task.attributes))


def _name(old: str, ranks: list[int], is_message: bool) -> str:
    """As MindSpore 2.9.0 names a group of several stages, so that it is that of a stage that was run; one of a single
    stage, which no other trace has a part in, by its ranks."""
    words = "-".join(map(str, ranks))
    if old == _WORLD:
        return old
    if found := _OF_STAGES.fullmatch(old):
        return hashlib.sha256(words.encode()).hexdigest()[:_HASHED] + (found[1] or "")
    return f"{'messages' if is_message else 'ranks'}-{words}"


def _peer(rank: int, here: Seat, there: Seat) -> int:
    """As many stages away as before."""
    stage, _, share = here.coordinates(rank)
    return there.rank(there.stage + stage - here.stage, 0, share)


def _group(ranks: list[int], here: Seat, there: Seat) -> list[int]:
    stages, copies, shares = (sorted(set(one)) for one in zip(*map(here.coordinates, ranks), strict=True))
    return [
        there.rank(*seat)
        for seat in product(
            range(there.cluster.num_stages) if len(stages) > 1 else (there.stage,),
            range(there.cluster.data_parallel) if len(copies) > 1 else (0,),
            shares,
        )
    ]
