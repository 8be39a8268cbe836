"""LOGS of a run -> which rank ran out of memory first, and how; a log in which none did tells that, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path

from swapconf.files import log_folder
from swapconf.files.log_folder import Stream
from swapconf.files.log_pool import read_all
from swapconf.files.opening import is_held_open, open_binary, read_bytes
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.grouping import by_rank
from swapconf.postmortem.holders import Printing
from swapconf.postmortem.message import Says
from swapconf.postmortem.messages import MESSAGES
from swapconf.postmortem.processes import of_each
from swapconf.postmortem.scan import Hit, Scan

_END_BYTES = 2**22
_OPENING_BYTES = 2**20
_RANK_ID = re.compile(rb"(?<!local )rank id: (\d{1,6})\b")
_CONFIG = re.compile(rb"--config[= ]([\w./][\w./+-]{0,200}\.ya?ml)\b")


@dataclass(frozen=True, kw_only=True)
class RunLog:
    """What the logs of a run say.

    Attributes:
        failures: The first of each rank, the one that came first at the head: by the times in the logs, where each
            tells one, else by rank.
        num_others: Failures after those.
        is_ordered: The times tell which rank failed first.
        tried: Attempts that failed without a failure, where nothing failed.
        ended: Other ends that the logs tell, where nothing failed: names of messages.
        trouble: Logs that could not be read, and why.
        packed: Logs that are compressed and were not read.
        config: The YAML that a command line in the logs names, "" for none; it may be anything.
        num_logs, size_bytes: That were read.
    """

    failures: tuple[Failure, ...]
    num_others: int
    is_ordered: bool
    tried: tuple[Hit, ...]
    ended: tuple[str, ...]
    trouble: tuple[tuple[str, str], ...]
    packed: tuple[str, ...]
    config: str
    num_logs: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What one stream says; as `RunLog`. ``printings``: what modules held, for failures in any log of the process."""

    failures: tuple[Failure, ...]
    printings: tuple[Printing, ...]
    num_others: int
    tried: tuple[Hit, ...]
    trouble: tuple[tuple[str, str], ...]
    config: str
    size_bytes: int


def read(path: Path, jobs: int = 1) -> RunLog:
    """One log, or all below a folder, so many at once. Raises OSError where the folder cannot be listed."""
    streams, packed = log_folder.find(path) if path.is_dir() else ([log_folder.of_file(path)], [])
    told = list(read_all(streams, _read, jobs))
    printings = [printing for one in told for printing in one.printings]
    failures = of_each((failure for one in told for failure in one.failures), printings)
    is_ordered = all(failure.time for failure in failures)
    return RunLog(
        failures=_one_of_each(sorted(failures, key=_order if is_ordered else _by_rank)),
        num_others=sum(one.num_others for one in told),
        is_ordered=is_ordered,
        tried=() if failures else tuple(hit for one in told for hit in one.tried),
        ended=() if failures else _endings(streams),
        trouble=tuple(item for one in told for item in one.trouble),
        packed=tuple(packed),
        config=next((one.config for one in told if one.config), ""),
        num_logs=len(streams),
        size_bytes=sum(one.size_bytes for one in told),
    )


def _read(stream: Stream) -> _Told:
    opening = _opening(stream)
    named = _CONFIG.search(opening)
    scan = Scan(paths=stream.paths)
    notes = by_rank(scan, _rank(stream, opening))
    return _Told(
        failures=tuple(failure for rank, one in notes.items() if (failure := one.failure(rank)) is not None),
        printings=tuple(printing for one in notes.values() for printing in one.printings.found()),
        num_others=sum(one.num_others for one in notes.values()),
        tried=tuple(one.tried for one in notes.values() if one.tried is not None),
        trouble=tuple(scan.trouble),
        config=named[1].decode() if named else "",
        size_bytes=scan.size_bytes,
    )


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


def _endings(streams: Sequence[Stream]) -> tuple[str, ...]:
    """The names of messages in the ends of logs that tell of another end of the run."""
    found: dict[str, None] = {}
    for stream in streams:
        try:
            with open_binary(stream.paths[-1]) as file:
                file.seek(max(0, file.seek(0, SEEK_END) - _END_BYTES))
                end = file.read(_END_BYTES)
        except (OSError, ValueError):
            continue
        found.update(
            dict.fromkeys(one.name for one in MESSAGES if one.says is Says.ENDED and one.read(end) is not None)
        )
    return tuple(found)
