"""BOARD: a folder in which each child of a dry run is entered while it runs, so that who waits can look at its log, and
that of two children which do not fit into memory together the later one gives way.

Children run in other processes, and their files are in folders of their own; an entry is a small file that names them.
On a Dask cluster the folder is on another machine, and the board stays empty.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from swapconf.dryrun import capacity
from swapconf.dryrun.came_to import Came, Reader
from swapconf.dryrun.job import Folder
from swapconf.dryrun.rank_order import RankOrder
from swapconf.files import json_object
from swapconf.files.writing import replace_text

_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Child:
    """One that runs.

    Attributes:
        title: What it is of, "" where the file tells.
        part: Which run of a folded rank, "" for the whole.
        seconds: Since it was started.
        since: How many of them in the part that it is in.
    """

    file: str
    title: str
    rank: int
    part: str
    came: Came
    seconds: float
    since: float


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of a child on a board. ``entry``: None where there is no board."""

    entry: Path | None
    start: float

    def gives_way(self) -> bool:
        """Memory is short, and others were started before: how much a child takes is not known beforehand (a stage of
        24 layers of Qwen3-30B-A3B took 15 GB to compile), and two at once can be more than there is."""
        return self.entry is not None and capacity.is_short() and self._is_behind()

    def wait(self) -> None:
        """Until none of those is left."""
        while self._is_behind():
            time.sleep(_LOOK_SECONDS)

    def _is_behind(self) -> bool:
        assert self.entry is not None
        others = (other for other in self.entry.parent.glob("*.json") if other != self.entry and _runs(other))
        return any(json_object.read(other).get("start", inf) < self.start for other in others)


@contextmanager
def entered(order: RankOrder, part: str, folder: Folder) -> Iterator[Seat]:
    """While a child runs. A board that cannot be written is no fault of the run."""
    start = time.time()
    if order.board is None:
        yield Seat(None, start)
        return
    entry = order.board / f"{os.getpid()}-{order.rank}-{part or 'whole'}.json"
    told = {"file": order.document.file, "title": order.title, "rank": order.rank, "part": part}
    with suppress(OSError):
        replace_text(entry, json.dumps({**told, "folder": str(folder.path), "start": start}))
    try:
        yield Seat(entry, start)
    finally:
        with suppress(OSError):
            entry.unlink(missing_ok=True)


def _runs(entry: Path) -> bool:
    """Whether the process that made an entry is there; one that was ended leaves its entries behind."""
    try:
        os.kill(int(entry.name.partition("-")[0]), 0)
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError):
        return False
    return True


class Watch:
    """Looks at a board again and again."""

    def __init__(self, board: Path) -> None:
        self._board = board
        self._readers: dict[str, Reader] = {}
        self._since: dict[str, tuple[Came, float]] = {}

    def children(self, now: float | None = None) -> list[Child]:
        """Those that run, by file and rank."""
        now = time.time() if now is None else now
        found = []
        for entry in sorted(self._board.glob("*.json")):
            known = json_object.read(entry)
            if not {"file", "title", "rank", "part", "folder", "start"} <= known.keys():
                continue  # it ended meanwhile
            folder = known["folder"]  # a process that runs another config enters that under the same name
            reader = self._readers.setdefault(folder, Reader(Folder(Path(folder))))
            came = reader.look()
            before, since = self._since.get(folder, (None, now))
            self._since[folder] = (came, since if came == before else now)
            found.append(
                Child(
                    known["file"],
                    known["title"],
                    known["rank"],
                    known["part"],
                    came,
                    now - known["start"],
                    now - self._since[folder][1],
                )
            )
        return sorted(found, key=lambda child: (child.file, child.title, child.rank, child.part))
