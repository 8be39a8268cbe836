"""FAILURES and ENDINGS of all ranks -> which of them came first: a rank that dies makes the others die of waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from swapconf.postmortem.cause import Cause, diagnose
from swapconf.postmortem.ending import Ending, Steps
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.families import Role

_SAME_REPORT_BYTES = 2**16  # what CANN tells of its calls beside an allocation that failed


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent:
    """A rank whose log ends without a word of its end."""

    rank: int
    after: Steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """``failures`` and ``endings``, each with the first in front; ``is_memory``: the first of the failures began."""

    failures: tuple[Failure, ...]
    endings: tuple[Ending, ...]
    is_memory: bool


def of_ranks(
    failures: Sequence[Failure],
    endings: Sequence[Ending],
    alive_at: Mapping[int | None, int],
    named: Set[int | None] = frozenset(),
) -> Heads:
    """``failures``: in order. ``alive_at``: where the log of a rank tells of its last step, in bytes. ``named``: whom a
    launcher saw end first."""
    ordered = tuple(sorted(endings, key=_order(endings, named)))
    died = tuple(one for one in failures if _died_of_it(one, ordered, alive_at))
    if not died:
        return Heads(failures=(), endings=ordered, is_memory=False)
    rest = tuple(one for one in ordered if all(not _is_same(one, failure) for failure in died))
    return Heads(failures=died, endings=rest, is_memory=not _came_before(rest, died[0]))


def _order(endings: Sequence[Ending], named: Set[int | None]) -> Callable[[Ending], tuple[int, bool, str, int]]:
    """By what is nearer to a cause; then whom a launcher saw end first; then by time, where each tells one."""
    is_timed = all(one.time for one in endings)

    def key(one: Ending) -> tuple[int, bool, str, int]:
        rank = -1 if one.rank is None else one.rank
        return one.family.role.value, rank not in named, one.time if is_timed else "", rank

    return key


def _died_of_it(failure: Failure, endings: Sequence[Ending], alive_at: Mapping[int | None, int]) -> bool:
    """Whether the rank did no step after it and then ended in another way; where it did, somebody caught the failure,
    as while the largest batch that fits is looked for."""
    own = [one for one in endings if one.rank == failure.rank and one.path == failure.path]
    return not own or alive_at.get(failure.rank, -1) <= failure.offset


def _is_same(ending: Ending, failure: Failure) -> bool:
    """Whether it tells of the same end of the same rank as a failed allocation."""
    if ending.rank != failure.rank or (ending.rank is None and ending.path != failure.path):
        return False
    is_first = ending.offset < failure.offset
    if diagnose(failure).cause is Cause.UNREAL and is_first and not ending.family.is_generic:
        return False  # what was never received was read as a size
    return not is_first or failure.offset - ending.offset <= _SAME_REPORT_BYTES


def _came_before(endings: Sequence[Ending], failure: Failure) -> bool:
    """Whether another rank, or this one, had died before, of what is a cause by itself."""
    if not endings:
        return False
    first = endings[0]
    if first.rank == failure.rank and first.path == failure.path:
        return True
    is_cause = first.family.role is Role.CAUSE and not first.family.is_late
    return is_cause and bool(first.time) and bool(failure.time) and first.time < failure.time


def waited_for(endings: Sequence[Ending]) -> tuple[int, ...]:
    """The ranks that others waited for in vain and that did not wait themselves."""
    waiting = {one.rank for one in endings if one.family.role is Role.WAITS}
    found = {one.awaited for one in endings if one.family.role is Role.WAITS}
    return tuple(sorted(rank for rank in found if rank is not None and rank not in waiting))
