"""SECONDS for all patterns of a file: what compiling, matching and guessing may take together.

Everything inside ``with shared():`` draws on one budget; outside of it each pattern has one of its own. Counted is
processor time, so that a busy machine refuses no pattern that an idle one takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

FILE_SECONDS = 0.25  # a file of a hundred patterns takes a fifth of it
PATTERN_SECONDS = 0.02  # so that one bad pattern does not take it all; a sane one takes microseconds


class Spent(Exception):
    """The budget is spent; ``by_file``: by all patterns together, not by this one."""

    def __init__(self, *, by_file: bool) -> None:
        self.by_file = by_file
        super().__init__()


class Budget:
    """What is left of the seconds, and the patterns that took too much, which are not tried again."""

    def __init__(self, seconds: float = FILE_SECONDS) -> None:
        self.left_seconds = seconds
        self.hopeless: set[str] = set()

    @contextmanager
    def spend(self, pattern: str) -> Iterator[float]:
        """Gives the seconds that the block may take. Raises Spent where there are none, or where it takes them all."""
        if pattern in self.hopeless:
            raise Spent(by_file=False)
        if self.left_seconds <= 0:
            raise Spent(by_file=True)
        start, allowed = time.thread_time(), min(self.left_seconds, PATTERN_SECONDS)
        try:
            yield allowed
        except TimeoutError:
            self.hopeless.add(pattern)
            raise Spent(by_file=False) from None
        finally:
            self.left_seconds -= time.thread_time() - start


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
