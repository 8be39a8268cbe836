"""LOGS of a run -> which rank ran out of memory first, and how; or what else ended the run, and on which rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swapconf.files import log_folder
from swapconf.files.log_folder import Stream
from swapconf.files.log_pool import read_all
from swapconf.files.opening import is_held_open, read_bytes
from swapconf.memory.figures import Figures
from swapconf.postmortem.ending import Ending, Steps
from swapconf.postmortem.ends import FIRST
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.first_cause import Heads, Silent, of_ranks
from swapconf.postmortem.grouping import RankNotes, by_rank
from swapconf.postmortem.holders import Printing
from swapconf.postmortem.processes import of_each
from swapconf.postmortem.scan import Hit, Scan
from swapconf.postmortem.who import Who

_OPENING_BYTES = 2**20
_RANK_ID = re.compile(rb"(?<!local )rank id: (\d{1,6})\b")
_CONFIG = re.compile(rb"--config[= ]([\w./][\w./+-]{0,200}\.ya?ml)\b")


@dataclass(frozen=True, kw_only=True)
class RunLog:
    """What the logs of a run say.

    Attributes:
        failures: The first of each rank that died of it, the one that came first at the head: by the times in the logs,
            where each tells one, else by rank.
        num_others: Failures after those.
        is_ordered: The times tell which rank failed first.
        is_memory: The first of the failures began it all; else the first of the endings did, if there is any.
        tried: Attempts that failed without a failure, where nothing failed.
        endings: Of each other rank that died of something else, the one that began at the head.
        silent: Ranks whose logs tell of no end at all, although others do.
        figures: Of each rank that prints its peaks or its limits.
        trouble: Logs that could not be read, and why.
        packed: Logs that are compressed and were not read.
        config: The YAML that a command line in the logs names, "" for none; it may be anything.
        num_logs, size_bytes: That were read.
    """

    failures: tuple[Failure, ...]
    num_others: int
    is_ordered: bool
    is_memory: bool
    tried: tuple[Hit, ...]
    endings: tuple[Ending, ...]
    silent: tuple[Silent, ...]
    figures: tuple[tuple[int | None, Figures], ...]
    trouble: tuple[tuple[str, str], ...]
    packed: tuple[str, ...]
    config: str
    num_logs: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What one stream says; as `RunLog`. ``printings``: what modules held, for failures in any log of the process.
    ``alive``: the last step of each rank, and where it is told."""

    failures: tuple[Failure, ...]
    endings: tuple[Ending, ...]
    alive: tuple[tuple[int | None, Steps, int], ...]
    figures: tuple[tuple[int | None, Figures], ...]
    printings: tuple[Printing, ...]
    num_others: int
    tried: tuple[Hit, ...]
    trouble: tuple[tuple[str, str], ...]
    config: str
    size_bytes: int


def read(path: Path, jobs: int = 1, *, only_end: bool = False) -> RunLog:
    """One log, or all below a folder, so many at once; of each only the end, in a quarter of the time: what ended a run
    stands there. Raises OSError where the folder cannot be listed."""
    streams, packed = log_folder.find(path) if path.is_dir() else ([log_folder.of_file(path)], [])
    told = list(read_all(streams, partial(_read, only_end=only_end), jobs))
    printings = [printing for one in told for printing in one.printings]
    failures = of_each((failure for one in told for failure in one.failures), printings)
    is_ordered = all(failure.time for failure in failures)
    heads = _heads(told, _one_of_each(sorted(failures, key=_order if is_ordered else _by_rank)))
    return RunLog(
        failures=heads.failures,
        num_others=sum(one.num_others for one in told),
        is_ordered=is_ordered,
        is_memory=heads.is_memory,
        tried=() if failures else tuple(hit for one in told for hit in one.tried),
        endings=heads.endings,
        silent=_silent(told, heads),
        figures=tuple(dict.fromkeys(pair for one in told for pair in one.figures)),
        trouble=tuple(item for one in told for item in one.trouble),
        packed=tuple(packed),
        config=next((one.config for one in told if one.config), ""),
        num_logs=len(streams),
        size_bytes=sum(one.size_bytes for one in told),
    )


def _read(stream: Stream, only_end: bool) -> _Told:
    opening = _opening(stream)
    named = _CONFIG.search(opening)
    scan = Scan(paths=stream.paths, only_end=only_end)
    rank = _rank(stream, opening)
    notes = by_rank(scan, rank)
    if rank is not None and not notes:
        notes[Who(rank=rank)] = RankNotes()  # a log that says nothing of all this is one of its rank, too
    ends = ((who, one.ends.ending(who, scan.size_bytes)) for who, one in notes.items())
    return _Told(
        failures=tuple(failure for who, one in notes.items() if (failure := one.failure(who)) is not None),
        endings=tuple(ending for _, ending in ends if ending is not None),
        alive=tuple(
            (who.rank, one.ends.steps, one.ends.alive_at) for who, one in notes.items() if not one.ends.is_over
        ),
        figures=tuple((who.rank, one.figures) for who, one in notes.items() if one.figures.is_told),
        printings=tuple(printing for one in notes.values() for printing in one.printings.found()),
        num_others=sum(one.num_others for one in notes.values()),
        tried=tuple(one.tried for one in notes.values() if one.tried is not None),
        trouble=tuple(scan.trouble),
        config=named[1].decode() if named else "",
        size_bytes=scan.size_bytes,
    )


def _heads(told: Sequence[_Told], failures: Sequence[Failure]) -> Heads:
    known: dict[int, Ending] = {}
    endings = []
    for ending in (ending for one in told for ending in one.endings):
        if ending.rank is None or (best := known.get(ending.rank)) is None:
            endings.append(ending)
        elif ending.family.nearness < best.family.nearness:  # a rank may have several logs; one of them tells more
            endings[endings.index(best)] = ending
        else:
            continue
        if ending.rank is not None:
            known[ending.rank] = ending
    alive_at = {rank: at for one in told for rank, _, at in one.alive}
    named = {ending.rank for one in told for ending in one.endings if FIRST in ending.messages}
    return of_ranks(failures, endings, alive_at, named)


def _silent(told: Sequence[_Told], heads: Heads) -> tuple[Silent, ...]:
    ended = {one.rank for one in heads.failures} | {one.rank for one in heads.endings}
    if not ended:
        return ()
    steps = {rank: after for one in told for rank, after, _ in one.alive if rank is not None}
    return tuple(Silent(rank=rank, after=after) for rank, after in sorted(steps.items()) if rank not in ended)


def _one_of_each(failures: Sequence[Failure]) -> tuple[Failure, ...]:
    """A rank may have several logs that tell the same."""
    known = {one.rank: one for one in reversed(failures)}
    return tuple(one for one in failures if one.rank is None or known[one.rank] is one)


def _order(failure: Failure) -> tuple[str, int]:
    return failure.time, _by_rank(failure)


def _by_rank(failure: Failure) -> int:
    return -1 if failure.rank is None else failure.rank


def _opening(stream: Stream) -> bytes:
    """What the first part of a log begins with; nothing of what can be read only once."""
    path = stream.paths[0]
    try:
        return b"" if is_held_open(path) else read_bytes(path, _OPENING_BYTES)
    except OSError:
        return b""  # the scan tells why


def _rank(stream: Stream, opening: bytes) -> int | None:
    """By the log's own word where that counts more than its name."""
    found = _RANK_ID.search(opening) if stream.own_rank else None
    return int(found[1]) if found else stream.rank
