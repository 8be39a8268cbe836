"""FOLDER -> STREAMS: the worker logs below a folder, each with its rotated parts and the rank that names tell.

Known names: ``worker_RANK.log`` of msrun, ``rank_RANK/info.log`` and ``error.log`` of mindformers, ``worker.log`` of a
dry run, and any other ``*.log``; with rotated parts ``*.log.1`` (the higher, the older) or ``*.log.2026-11-20``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = re.compile(r"(?P<base>.+\.log)(?:\.(?P<part>[\w.-]+))?")
_FILE_RANK = re.compile(r"_(\d{1,6})\.log$|rank[_-]?(\d{1,6})\b")
_NAMED_RANK = re.compile(r"(?:worker|rank)[_-]?(\d{1,6})\b")
_FOLDER_RANK = re.compile(r"rank[_-]?(\d{1,6})")
# Open MPI --tag-output, srun --label, and the rank in words
RANK_TAG = re.compile(
    rb"\s*(?:\[\d+,(\d{1,6})\]<std(?:out|err)>|(\d{1,6}): |\[?rank[ _:]?(\d{1,6})\]?[:| ])", re.IGNORECASE
)
_PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One log with its rotated parts, oldest first.

    Attributes:
        rank: By the names of file and folder, None where they do not tell.
        own_rank: The log's own word for its rank counts more (msrun numbers workers by node).
    """

    paths: tuple[Path, ...]
    rank: int | None
    own_rank: bool

    @property
    def run(self) -> Path:
        """The folder that holds the logs of all ranks."""
        parent = self.paths[0].parent
        return parent.parent if _FOLDER_RANK.fullmatch(parent.name) else parent

    @property
    def kind(self) -> str:
        """What the log is called for any rank: a run writes one of a kind for each."""
        return re.sub(r"\d+", "N", _FILE.sub(r"\g<base>", self.paths[-1].name))


def find(folder: Path) -> tuple[list[Stream], list[str]]:
    """The logs below a folder, and those that are compressed and therefore not read. Links are followed, each folder
    once; the scheduler's log belongs to no rank. Raises OSError where the folder cannot be listed."""
    parts: dict[Path, list[tuple[str, Path]]] = {}
    packed = []
    for path in _files(folder):
        match = _FILE.fullmatch(path.name)
        if match is None or path.name.startswith("scheduler"):
            continue
        if path.name.endswith(_PACKED):
            packed.append(str(path))
        else:
            parts.setdefault(path.parent / match["base"], []).append((match["part"] or "", path))
    return [_stream(base, found, folder) for base, found in sorted(parts.items())], sorted(packed)


def of_file(path: Path) -> Stream:
    """One file alone, without the parts that stand beside it, with the rank that its name tells; a number alone, as in
    train_2.log, is none."""
    own = _NAMED_RANK.search(path.name)
    return Stream(paths=(path,), rank=int(own[1]) if own else None, own_rank=True)


def _files(folder: Path) -> Iterator[Path]:
    os.listdir(folder)  # raises for the folder itself; what is below it may fail
    todo, seen = [folder], set()
    while todo:
        place = todo.pop()
        try:
            status = place.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(place) as listing:
                for item in listing:
                    if _holds(item.is_dir):
                        todo.append(place / item.name)
                    elif _holds(item.is_file):
                        yield place / item.name
        except OSError:
            continue


def _holds(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a link to itself
        return False


def _stream(base: Path, parts: list[tuple[str, Path]], folder: Path) -> Stream:
    def age(part: tuple[str, Path]) -> tuple[int, int, str]:
        suffix = part[0]
        return (0, -int(suffix), "") if suffix.isdecimal() and len(suffix) < 8 else (1 if suffix else 2, 0, suffix)

    own = _FILE_RANK.search(base.name)
    above = [
        match
        for place in (base.parent, *base.parent.parents)
        if place == folder or folder in place.parents
        if (match := _FOLDER_RANK.fullmatch(place.name if place != folder else place.resolve().name))
    ]
    rank = number(own) if own else number(above[0]) if above else None
    return Stream(paths=tuple(path for _, path in sorted(parts, key=age)), rank=rank, own_rank=bool(own or not above))


def number(match: re.Match[Any]) -> int:
    """The group that matched, of several that tell a rank."""
    return int(next(group for group in match.groups() if group is not None))
