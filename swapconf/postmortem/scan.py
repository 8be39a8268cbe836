"""LOG, of any size -> HITS: the known messages in it, in order, each with what stands around it.

Blocks of bytes are searched for a few words; only a line with one of them is looked at, and of a line no more than
`WINDOW_BYTES` at a time. What is held grows neither with a log nor with its longest line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.files.log_blocks import LogBlocks
from swapconf.postmortem.message import Message, Value
from swapconf.postmortem.messages import ANCHORS, MESSAGES

BLOCK_BYTES = 2**17  # stays in the cache of a core while it is searched
WINDOW_BYTES = 2**13
BEFORE_BYTES = 2**15  # of what was printed before a message: the frames of Python, the last time of day


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a message stands. ``line``: in the part ``path``, from 1; ``offset``: in all parts together, in bytes."""

    path: Path
    line: int
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One message. ``line``: what stands around it on its line; ``before``: what was printed before that line."""

    message: Message
    values: dict[str, Value]
    line: bytes
    before: bytes
    place: Place


@dataclass(kw_only=True, slots=True)
class Scan:
    """The hits of one log as they are found; afterwards, what could not be read, and how much was."""

    paths: Sequence[Path]
    anchors: Sequence[bytes] = ANCHORS
    trouble: list[tuple[str, str]] = field(default_factory=list)
    size_bytes: int = 0

    def __iter__(self) -> Iterator[Hit]:
        blocks = LogBlocks(self.paths, BLOCK_BYTES)
        buffer, start, offset = b"", 0, 0  # of all that was read, from offset on; before start it is done with
        lines = _Lines()
        for block in blocks:
            lines.enter(blocks.path)
            buffer += block
            begin = max(start, len(buffer) - WINDOW_BYTES)
            stop = buffer.rfind(b"\n", begin) + 1 or begin
            yield from _hits(buffer, start, stop, offset, lines, self.anchors)
            keep = max(0, stop - BEFORE_BYTES)
            buffer, start, offset = buffer[keep:], stop - keep, offset + keep
        yield from _hits(buffer, start, len(buffer), offset, lines, self.anchors)
        self.trouble, self.size_bytes = blocks.trouble, blocks.size_bytes


class _Lines:
    """Counts the lines of each part."""

    def __init__(self) -> None:
        self.path = Path()
        self.passed = 0

    def enter(self, path: Path | None) -> None:
        if path is not None and path != self.path:
            self.path, self.passed = path, 0


def _hits(data: bytes, start: int, stop: int, offset: int, lines: _Lines, anchors: Sequence[bytes]) -> Iterator[Hit]:
    """What `data[start:stop]` holds; the bytes around are context."""
    at, counted = start, start
    nexts = dict.fromkeys(anchors, -1)
    while (at := _next(data, at, stop, nexts)) >= 0:
        begin = max(data.rfind(b"\n", max(0, at - WINDOW_BYTES), at) + 1, at - WINDOW_BYTES)
        end = data.find(b"\n", at, at + WINDOW_BYTES)
        end = min(len(data), at + WINDOW_BYTES) if end < 0 else end
        lines.passed += data.count(b"\n", counted, at)
        counted = max(counted, at)
        place = Place(path=lines.path, line=lines.passed + 1, offset=offset + at)
        yield from _of_line(data[begin:end], data[max(0, begin - BEFORE_BYTES) : begin], place)
        at = max(end, at + 1)
    lines.passed += data.count(b"\n", counted, stop)


def _next(data: bytes, at: int, stop: int, nexts: dict[bytes, int]) -> int:
    """Where the next anchor begins, -1 for nowhere; each is looked for by itself, which takes half the time of a
    pattern of all. ``nexts``: where each was found last; they begin with -1."""
    found = stop
    for anchor, place in list(nexts.items()):
        if place < at:
            place = data.find(anchor, at, stop + len(anchor) - 1)
            if place < 0:
                del nexts[anchor]
                continue
            nexts[anchor] = place
        found = min(found, place)
    return found if found < stop else -1


def _of_line(line: bytes, before: bytes, place: Place) -> Iterator[Hit]:
    for message in MESSAGES:
        values = message.read(line)
        if values is not None:
            yield Hit(message=message, values=values, line=line, before=before, place=place)
