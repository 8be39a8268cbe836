"""How far the children of a dry run are: live below the bar on a terminal, a line for each change in a log."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from swapconf.cli.common import say
from swapconf.cli.progress import Progress
from swapconf.words.phrases import phrase, show

if TYPE_CHECKING:
    from swapconf.dryrun.board import Child

_LOOK_SECONDS = 1.0


class Children:
    """Progress of ``total`` ranks, with what each child does at the moment. `board`: the folder to enter them in."""

    def __init__(self, total: int, title: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="swapconf-board-", ignore_cleanup_errors=True)
        self.board = Path(self._folder.name)
        self._total, self._done = total, 0
        self._progress = Progress(total, title, self._lines)
        self._told: dict[tuple[str, str, int, str], str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Children:
        from swapconf.dryrun.board import Watch

        self._watch = Watch(self.board)
        self._progress.__enter__()
        if not sys.stderr.isatty():
            self._thread.start()
        return self

    def step(self) -> None:
        self._done += 1
        self._progress.step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._progress.__exit__(kind, error, trace)
        self._folder.cleanup()

    def _lines(self) -> list[str]:
        return [
            show(line_of(child, many_files=self._has_many(children)))
            for children in (self._watch.children(),)
            for child in children
        ]

    def _has_many(self, children: list[Child]) -> bool:
        return len({child.file for child in children}) > 1

    def _tell(self) -> None:
        """In a log: who came to another station, once."""
        while not self._ended.wait(_LOOK_SECONDS):
            children = self._watch.children()
            for child in children:
                key, station = (child.file, child.title, child.rank, child.part), _station(child)
                if self._told.get(key) != station:
                    self._told[key] = station
                    say(
                        phrase(
                            "{child} ({done} of {total} ranks done)",
                            done=self._done,
                            total=self._total,
                            child=line_of(child, many_files=self._has_many(children)),
                        ),
                        err=True,
                    )


def _station(child: Child) -> str:
    return f"{child.came.station.value} {child.came.step}"


def line_of(child: Child, *, many_files: bool) -> str:
    """``rank 0: compiling (type_inference), 35 s, about 80 s left``."""
    from swapconf.dryrun.time_left import left_seconds

    name = phrase("rank {rank}", rank=child.rank)
    if child.part:
        name = phrase("rank {rank}, {part}", rank=child.rank, part=child.part)
    of = child.title or (Path(child.file).name if many_files else "")
    if of:
        name = phrase("{file}: {text}", file=of, text=name)
    left = left_seconds(child.came, child.seconds, child.since)
    if left is None:
        return phrase("{name}: {doing}, {seconds:.0f} s", name=name, doing=child.came.words, seconds=child.seconds)
    return phrase(
        "{name}: {doing}, {seconds:.0f} s, about {left:.0f} s left",
        name=name,
        doing=child.came.words,
        seconds=child.seconds,
        left=left,
    )
