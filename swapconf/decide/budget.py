"""SECONDS for all patterns of a file: what matching them may take together, and how many there may be.

Everything inside ``with shared():`` draws on one budget; outside of it each call has one of its own. Only the time
inside the matcher counts, in processor time, so that neither a busy machine nor a pause of Python's garbage collector
refuses a pattern. Compiling is bounded by limits on the pattern itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    import regex

FILE_SECONDS = 0.3  # a sane pattern takes microseconds
MATCH_SECONDS = 0.1  # so that one bad pattern does not take it all
MAX_PATTERNS = 300  # different ones; compiling one takes up to a millisecond


class Spent(Exception):
    """The budget is spent; the text says on what."""


class Budget:
    """What is left, and the patterns that took too much, which are not tried again."""

    def __init__(self, seconds: float = FILE_SECONDS) -> None:
        self.left_seconds = seconds
        self.hopeless: set[str] = set()
        self.known: set[str] = set()

    def admit(self, pattern: str) -> None:
        """Raises Spent for a pattern that is not to be tried."""
        if pattern in self.hopeless:
            raise Spent(
                phrase("matching takes longer than {seconds} s; simplify its repetitions", seconds=MATCH_SECONDS)
            )
        if self.left_seconds <= 0:
            raise Spent(
                phrase(
                    "the patterns of this file take longer than {seconds} s together, and this one is not "
                    "tried any more; simplify those that repeat something",
                    seconds=FILE_SECONDS,
                )
            )
        if len(self.known) >= MAX_PATTERNS and pattern not in self.known:
            raise Spent(phrase("there are more than {limit} patterns in this file", limit=MAX_PATTERNS))
        self.known.add(pattern)

    def fits(self, element: regex.Pattern[str], name: str, pattern: str) -> bool:
        """Whether an element of the pattern matches a whole name. Raises Spent."""
        self.admit(pattern)
        start = time.thread_time()
        try:
            return element.fullmatch(name, timeout=min(self.left_seconds, MATCH_SECONDS)) is not None
        except TimeoutError:
            self.hopeless.add(pattern)
        finally:
            self.left_seconds -= time.thread_time() - start
        return self.fits(element, name, pattern)  # says that it is hopeless


_SHARED: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """One budget for all patterns in the block."""
    token = _SHARED.set(Budget())
    try:
        yield
    finally:
        _SHARED.reset(token)


def current() -> Budget:
    """The shared one, or a new one."""
    return _SHARED.get() or Budget()
