"""TRACES -> MEETINGS: which kernels of several ranks can only run together.

The k-th launch of a collective in a group belongs to the k-th launch in the same group on every other rank of it, and
the k-th ``Send`` from one rank to another to the k-th ``Receive`` there (MindSpore 2.9.0 names both ranks and the group
in tracker_graph.ir, and not the sr_tag; the order is the same on both sides in all traces, as HCCL demands).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from swapconf.timing.program import step_tasks
from swapconf.trace.trace import POINT_TO_POINT, Task, Trace
from swapconf.trace.work import COLLECTIVES
from swapconf.upstream.scopes import GRADIENTS
from swapconf.words.phrases import joined, phrase

Meeting: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel that needs other ranks.

    Attributes:
        channel: What the calls that belong together have in common, as words.
        ranks: All that take part, by global number.
        is_gradient: It belongs to the backward pass.
    """

    kernel: int
    channel: tuple[str, ...]
    ranks: frozenset[int]
    is_gradient: bool = False

    @property
    def sender(self) -> int:
        """-1 for a collective."""
        return int(self.channel[1]) if len(self.channel) > 1 else -1


def calls(trace: Trace, rank: int) -> tuple[Call, ...]:
    """Those of one step, in order of launch; those of groups that are not told are left out. Raises ValueError where
    the trace has no graph."""
    return tuple(
        call
        for kernel, task in enumerate(step_tasks(trace))
        if task.primitive in COLLECTIVES and (call := _call(kernel, task, rank)) is not None
    )


def _call(kernel: int, task: Task, rank: int) -> Call | None:
    attributes = dict(task.attributes)
    group = attributes.get("group", "")
    if task.primitive not in POINT_TO_POINT:
        ranks = frozenset(int(word) for word in attributes.get("comm_rank", "").split() if word.isdigit())
        return Call(kernel, (group,), ranks) if group and rank in ranks else None
    peer = attributes.get("dst_rank" if task.primitive == "Send" else "src_rank", "")
    if not peer.isdigit():
        return None
    ends = (rank, int(peer)) if task.primitive == "Send" else (int(peer), rank)
    return Call(kernel, (group, *map(str, ends)), frozenset(ends), task.name.startswith(GRADIENTS))


def meetings(by_rank: Mapping[int, Sequence[Call]]) -> tuple[Meeting, ...]:
    """(which of the ranks, which of its kernels) that run together; two at least. The ranks count in the order in which
    they are given. Raises ValueError where one rank waits more often than the others come."""
    found: list[Meeting] = []
    place = {rank: index for index, rank in enumerate(by_rank)}
    channels: dict[tuple[str, ...], dict[int, list[Call]]] = {}
    for rank, made in by_rank.items():
        for call in made:
            if len(call.ranks & place.keys()) > 1:
                channels.setdefault(call.channel, {}).setdefault(rank, []).append(call)
    for channel, sides in channels.items():
        expected = next(iter(sides.values()))[0].ranks & place.keys()
        counts = {rank: len(sides.get(rank, ())) for rank in sorted(expected)}
        if len(set(counts.values())) > 1:
            ranks_text = joined(
                ", ", (phrase("rank {rank} {times} times", rank=rank, times=count) for rank, count in counts.items())
            )
            where = (
                phrase("from rank {sender} to rank {receiver}", sender=channel[1], receiver=channel[2])
                if len(channel) > 1
                else phrase("in the group {group}", group=channel[0])
            )
            raise ValueError(
                phrase(
                    "data {where} is exchanged by {ranks}: these are not traces of one job",
                    where=where,
                    ranks=ranks_text,
                )
            )
        found += [
            tuple((place[rank], sides[rank][turn].kernel) for rank in counts)
            for turn in range(next(iter(counts.values())))
        ]
    return tuple(found)


def absent(by_rank: Mapping[int, Sequence[Call]]) -> tuple[int, ...]:
    """Ranks that these send to or receive from, and that are not among them: other pipeline stages."""
    return tuple(sorted({rank for call in _messages(by_rank) for rank in call.ranks} - by_rank.keys()))


def _messages(by_rank: Mapping[int, Sequence[Call]]) -> Iterator[Call]:
    return (call for made in by_rank.values() for call in made if call.sender >= 0)
