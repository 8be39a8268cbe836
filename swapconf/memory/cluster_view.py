"""CLUSTER VIEW: what a picture of all stages of a job shows, one rank for each, and what the ranks of a host share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swapconf.memory.peak import Peak


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRow:
    """One rank, None where its run did not get that far.

    Attributes:
        outcome: In words.
        limit_bytes: What it may use, of the YAML, the device or the budget the least.
        origin: Where the figures come from.
    """

    rank: int
    stage: int
    outcome: str
    is_good: bool
    origin: str
    used_peak_bytes: int | None = None
    with_fragments_peak_bytes: int | None = None
    reserved_bytes: int | None = None
    limit_bytes: int | None = None
    host_bytes: int | None = None
    peak: Peak | None = None

    @property
    def headroom_bytes(self) -> int | None:
        """Below zero where it does not fit."""
        if self.limit_bytes is None or self.with_fragments_peak_bytes is None:
            return None
        return self.limit_bytes - self.with_fragments_peak_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRow:
    """Hosts ``first`` to ``last`` that hold alike.

    Attributes:
        cards: (stage, how many of its ranks live on one of them).
        host_bytes: Of one host, all its ranks together; None where that of a stage is not known.
    """

    first: int
    last: int
    cards: tuple[tuple[int, int], ...]
    host_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """One config.

    Attributes:
        num_devices, num_stages: Of the whole job.
        is_assumed: The number of cards of a host was not told.
        kept_in: The folder with the traces, "" for none.
    """

    title: str
    num_devices: int
    num_stages: int
    cards_per_host: int
    rows: tuple[RankRow, ...]
    is_assumed: bool = False
    kept_in: str = ""

    @property
    def tightest(self) -> RankRow | None:
        """Of the ranks with a peak the one with the least headroom, or, without limits, the highest peak."""
        known = [row for row in self.rows if row.with_fragments_peak_bytes is not None]
        limited = [row for row in known if row.headroom_bytes is not None]
        if limited:
            return min(limited, key=lambda row: (row.headroom_bytes or 0, row.rank))
        return max(known, key=lambda row: (row.with_fragments_peak_bytes or 0, -row.rank), default=None)

    @property
    def hosts(self) -> tuple[HostRow, ...]:
        return hosts(self.num_devices, self.num_stages, self.cards_per_host, self.host_bytes_of_stage)

    @property
    def host_bytes_of_stage(self) -> dict[int, int | None]:
        """Ranks of a stage are alike, so one speaks for all; of several the one with the most."""
        found: dict[int, int | None] = {}
        for row in self.rows:
            known = found.get(row.stage)
            found[row.stage] = row.host_bytes if known is None else max(known, row.host_bytes or 0)
        return found


def hosts(
    num_devices: int, num_stages: int, cards_per_host: int, bytes_of_stage: Mapping[int, int | None]
) -> tuple[HostRow, ...]:
    """The hosts in order, those that follow each other and hold alike in one row. Ranks fill hosts in order, and stages
    are consecutive ranks, as MindSpore deals them. A job smaller than a host is one host."""
    rows: list[HostRow] = []
    for host in range(-(-num_devices // cards_per_host)):
        first, end = host * cards_per_host, min((host + 1) * cards_per_host, num_devices)
        cards = _cards(first, end, num_devices, num_stages)
        if rows and rows[-1].cards == cards:
            rows[-1] = HostRow(first=rows[-1].first, last=host, cards=cards, host_bytes=rows[-1].host_bytes)
        else:
            rows.append(HostRow(first=host, last=host, cards=cards, host_bytes=_sum(cards, bytes_of_stage)))
    return tuple(rows)


def _cards(first: int, end: int, num_devices: int, num_stages: int) -> tuple[tuple[int, int], ...]:
    """(stage, how many) of the ranks from ``first`` to before ``end``."""
    found = []
    for stage in range(first * num_stages // num_devices, (end - 1) * num_stages // num_devices + 1):
        low, high = stage * num_devices // num_stages, (stage + 1) * num_devices // num_stages
        found.append((stage, min(high, end) - max(low, first)))
    return tuple(found)


def _sum(cards: Sequence[tuple[int, int]], bytes_of_stage: Mapping[int, int | None]) -> int | None:
    total = 0
    for stage, count in cards:
        size = bytes_of_stage.get(stage)
        if size is None:
            return None
        total += size * count
    return total
