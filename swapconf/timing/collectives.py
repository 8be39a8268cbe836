"""COLLECTIVE + GROUP + HARDWARE -> MICROSECONDS, as HCCL does it: between the cards of a host, and between hosts.

Within a host each card has a link to each other one (or one link to a switch), and all exchange at once. Between hosts
each card exchanges with those of its place in the other hosts, only what is its share of its host: a group with more
cards on a host sends less through the network of each. Large ones do both at once (HCCL's pipeline, which goes from
host to host); small ones do one after the other, between hosts by the fewest steps. Each step between hosts has its
latency, and each collective what it takes to start.

Source: HCCL (CANN open software), algorithm/impl/operator/coll_alg_operator.cc, GetDefaultAlgoLevel1V2 and
SelectAlgoTypeForAllReduce ff., for the Ascend 910B with operators launched one by one, as MindSpore does with jit_level
O0 and O1. With deterministic sums HCCL has no pipeline for what adds up; that is not asked for here. Other cards are
taken to do the same, with their own links and latency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from swapconf.timing.cost import GIGA, Hardware
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.trace.work import REDUCING, WHOLE

PIPELINED_BYTES = 32 * 1024  # of a card, from which on both are done at once (PIPELINE_MIN_SIZE) ...
PIPELINED_REDUCE_BYTES = 1024 * 1024  # ... and the slice of a card, of an AllReduce (PIPELINE_ALLREDUCE_MIN_SIZE)
_EXCHANGING = frozenset({"AlltoAll", "AlltoAllV", "NeighborExchange", "NeighborExchangeV2"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Of a group: so many ``hosts``, each with ``cards`` of it at least."""

    hosts: int
    cards: int

    @property
    def size(self) -> int:
        return self.hosts * self.cards


def shape_of(ranks: Sequence[int], hardware: Hardware) -> Shape:
    per_host = Counter(rank // int(hardware.value("cards_per_host")) for rank in ranks)
    return Shape(hosts=max(1, len(per_host)), cards=min(per_host.values(), default=1))


def collective_us(primitive: str, whole_bytes: float, ranks: Sequence[int], hardware: Hardware) -> float:
    """``whole_bytes``: of what all have after a gather, or before a scatter. ``ranks``: of the group by global number;
    one or none where it is not known, which counts as neighbours on one host."""
    value = hardware.value
    group = shape_of(ranks, hardware)
    links = value("peer_links") if len(ranks) < 2 else min(group.cards - 1, value("peer_links"))
    inside_us = _us(inside_bytes(primitive, whole_bytes, group), value("peer_link_gbps") * max(1, links))
    between_us = _us(_between_bytes(primitive, whole_bytes, group), value("network_gbps"))
    is_pipelined = group.cards > 1 and group.hosts > 1 and _is_large(primitive, whole_bytes, group)
    moving_us = max(inside_us, between_us) if is_pipelined else inside_us + between_us
    waiting_us = _steps(primitive, group.hosts, is_pipelined=is_pipelined) * value("network_latency_us")
    return moving_us * value("collective_slowdown") + waiting_us + value("collective_start_us")


def _us(size_bytes: float, gbps: float) -> float:
    return 1e6 * size_bytes / (gbps * GIGA)


def inside_bytes(primitive: str, whole_bytes: float, group: Shape) -> float:
    """What a card sends to others of its host."""
    if primitive in WHOLE:
        return whole_bytes if group.hosts == 1 or primitive not in POINT_TO_POINT else 0.0
    if primitive in _EXCHANGING:
        return whole_bytes * (group.cards - 1) / group.size
    part = whole_bytes * (group.cards - 1) / group.cards
    return 2 * part if primitive in REDUCING else part


def _between_bytes(primitive: str, whole_bytes: float, group: Shape) -> float:
    """What a card sends to other hosts."""
    if group.hosts == 1:
        return 0.0
    if primitive in POINT_TO_POINT:
        return whole_bytes
    if primitive in _EXCHANGING:
        return whole_bytes * (group.size - group.cards) / group.size
    part = whole_bytes / group.cards * (group.hosts - 1) / group.hosts
    return 2 * part if primitive in REDUCING or primitive in WHOLE else part


def _is_large(primitive: str, whole_bytes: float, group: Shape) -> bool:
    if primitive in WHOLE:
        return False
    each = whole_bytes / group.size
    return each >= (PIPELINED_REDUCE_BYTES if primitive in REDUCING else PIPELINED_BYTES)


def _steps(primitive: str, hosts: int, *, is_pipelined: bool) -> int:
    """Between hosts, one after another: from each to the next, or with twice as many at each step."""
    if primitive in POINT_TO_POINT:
        return min(hosts - 1, 1)
    once = hosts - 1 if is_pipelined or primitive in _EXCHANGING else ceil(log2(hosts))
    return 2 * once if primitive in REDUCING or primitive in WHOLE else once
