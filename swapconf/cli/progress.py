"""How far a long command has come: a bar on the standard error where that is a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from swapconf.words.phrases import phrase, show

T = TypeVar("T")


class Progress:
    """Elapsed and expected time of ``total`` things; the bar goes when they are done. ``lines``: what stands below it,
    asked for again and again."""

    def __init__(self, total: int, title: str, lines: Callable[[], Sequence[str]] = lambda: ()) -> None:
        self._total, self._title, self._lines = total, title, lines
        self._bar: Any = None
        self._live: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console, Group
            from rich.live import Live
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.text import Text

            self._bar = Progress(
                TextColumn(show(self._title)),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn(show(phrase("expected"))),
                TimeRemainingColumn(),
            )
            self._live = Live(
                get_renderable=lambda: Group(self._bar, *map(Text, self._lines())),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=4,
            )
            self._live.start()
            self._task = self._bar.add_task("", total=self._total)
        return self

    def step(self) -> None:
        if self._bar is not None:
            self._bar.advance(self._task)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


def shown(things: Iterable[T], total: int, title: str, least: int = 1) -> Iterator[T]:
    """The things, one by one as they are asked for, with a bar. ``least``: for fewer there is none."""
    if total < least:
        yield from things
        return
    with Progress(total, title) as progress:
        for thing in things:
            yield thing
            progress.step()


@contextmanager
def counted(total: int, title: str) -> Iterator[Callable[[int], None]]:
    """A bar for so many things, and what moves it to a number of them."""
    with Progress(total, title) as progress:
        at = 0

        def reach(number: int) -> None:
            nonlocal at
            while at < number:
                progress.step()
                at += 1

        yield reach
