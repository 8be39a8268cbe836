"""RANK END: how a rank died, in words; whoever reads the logs for that tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swapconf.verify.deviation import DIED, Deviation
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase
from swapconf.words.rules import LOGS


@dataclass(frozen=True, kw_only=True, slots=True)
class RankEnd:
    """``rank``: None where neither a log's name nor its lines tell. ``origin``: where it is told; of ranks that died of
    the same, the folder."""

    rank: int | None
    what: str
    hint: str
    origin: Origin


def deviations(ends: Sequence[RankEnd], rank: int) -> Iterator[Deviation]:
    for end in ends:
        if end.rank == rank:
            yield Deviation(DIED, end.origin, end.what, end.hint)


def of_no_rank(ends: Sequence[RankEnd]) -> Iterator[Finding]:
    for end in ends:
        if end.rank is None:
            yield Finding(
                origin=end.origin,
                rule=DIED,
                severity=Severity(LOGS[DIED][0]),
                message=phrase("the run: {message}", message=end.what),
                hint=end.hint,
            )
