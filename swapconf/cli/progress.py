"""How far a long command has come: a bar on the standard error where that is a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from swapconf.phrases import phrase, show

T = TypeVar("T")


class Progress:
    """Elapsed and expected time of ``total`` things; the bar goes when they are done."""

    def __init__(self, total: int, title: str) -> None:
        self._total, self._title = total, title
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(TextColumn(show(self._title)), BarColumn(), MofNCompleteColumn(),
                                 TimeElapsedColumn(), TextColumn(show(phrase("expected"))), TimeRemainingColumn(),
                                 console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total)
        return self

    def step(self) -> None:
        if self._bar is not None:
            self._bar.advance(self._task)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def shown(things: Iterable[T], total: int, title: str, least: int = 1) -> Iterator[T]:
    """The things, one by one as they are asked for, with a bar. ``least``: for fewer there is none."""
    if total < least:
        yield from things
        return
    with Progress(total, title) as progress:
        for thing in things:
            yield thing
            progress.step()
