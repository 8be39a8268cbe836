"""LOG, of any size -> HITS: the known messages in it, in order, each with what stands around it.

Blocks of bytes are searched for a few words (`ANCHORS`); where one stands with what follows it in some message, that
message is tried there. The end of a log is also searched for what else ends a run. What is held grows neither with a
log nor with its longest line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.files.log_blocks import LogBlocks
from swapconf.files.log_pool import size_of
from swapconf.postmortem.endings import END_ANCHORS, ENDINGS
from swapconf.postmortem.message import Message, Value
from swapconf.postmortem.messages import ANCHORS, MESSAGES

END_BYTES = 2**23  # of a log: what a process, or all of a launcher, prints when it dies
BLOCK_BYTES = 2**17  # stays in the cache of a core while it is searched
WINDOW_BYTES = 2**13
_TAIL_BYTES = 16  # of a text around its anchor, which tell it from most others
_KEY_BYTES = 4  # of a text behind its anchor, by which messages are looked up
_AROUND_BYTES = 512
_BACK_BYTES = 256  # from the beginning of a message to the text with its anchor
_LINES = 2 + max(message.form.count("\n") for message in (*MESSAGES, *ENDINGS))  # of a message, and the one below it
BEFORE_BYTES = 2**15  # of what was printed before a message: the frames of Python, the last time of day


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a message stands. ``line``: in the part ``path``, from 1; ``offset``: in all parts together, in bytes."""

    path: Path
    line: int
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One message. ``line``: what stands around it on its line, in which it begins at ``at``. ``buffer``: what was
    read, with the line at ``begin``; b"" once it is let go."""

    message: Message
    values: dict[str, Value]
    line: bytes
    at: int
    place: Place
    buffer: bytes
    begin: int

    @property
    def before(self) -> bytes:
        """What was printed before the line."""
        return self.buffer[max(0, self.begin - BEFORE_BYTES) : self.begin]

    @property
    def around(self) -> bytes:
        """The line, or of a long one its beginning and what stands beside the message."""
        if len(self.line) <= 4 * _AROUND_BYTES:
            return self.line
        return self.line[:_AROUND_BYTES] + self.line[max(_AROUND_BYTES, self.at - _AROUND_BYTES) :][: 2 * _AROUND_BYTES]

    @property
    def below(self) -> bytes:
        """The next line, as far as it was read."""
        at = self.begin + len(self.line) + 1
        end = self.buffer.find(b"\n", at, at + WINDOW_BYTES)
        return self.buffer[at : end if end >= 0 else at + WINDOW_BYTES]

    def let_go(self) -> Hit:
        """The same without what was read, which is large."""
        return Hit(
            message=self.message, values=self.values, line=self.line, at=self.at, place=self.place, buffer=b"", begin=0
        )


@dataclass(kw_only=True, slots=True)
class Scan:
    """The hits of one log as they are found; afterwards, what could not be read, and how much was. ``only_end``: of the
    last `END_BYTES` of it."""

    paths: Sequence[Path]
    only_end: bool = False
    trouble: list[tuple[str, str]] = field(default_factory=list)
    size_bytes: int = 0

    def __iter__(self) -> Iterator[Hit]:
        blocks = LogBlocks(self.paths, BLOCK_BYTES)
        buffer, start, offset = b"", 0, 0  # of all that was read, from offset on; before start it is done with
        lines = _Lines()
        total = sum(size_of(path) for path in self.paths)
        signs = _SIGNS
        for block in blocks:
            lines.enter(blocks.path)
            if blocks.size_bytes + END_BYTES >= total:
                signs = _ALL_SIGNS
            elif self.only_end:
                lines.passed, offset = lines.passed + block.count(b"\n"), offset + len(block)
                continue
            buffer += block
            stop = _told_whole(buffer, max(start, len(buffer) - WINDOW_BYTES))
            yield from _hits(buffer, start, stop, offset, lines, signs)
            keep = max(0, stop - BEFORE_BYTES)
            buffer, start, offset = buffer[keep:], stop - keep, offset + keep
        yield from _hits(buffer, start, len(buffer), offset, lines, _ALL_SIGNS)
        self.trouble, self.size_bytes = blocks.trouble, blocks.size_bytes


def _told_whole(buffer: bytes, begin: int) -> int:
    """Up to where messages end in what was read so far, with the line below them; in long lines from ``begin`` on."""
    stop = len(buffer)
    for _ in range(_LINES):
        stop = buffer.rfind(b"\n", begin, stop)
        if stop < 0:
            return begin
    return stop + 1


class _Lines:
    """Counts the lines of each part."""

    def __init__(self) -> None:
        self.path = Path()
        self.passed = 0

    def enter(self, path: Path | None) -> None:
        if path is not None and path != self.path:
            self.path, self.passed = path, 0


class _Sign:
    """An anchor, and the messages that are told by it.

    Attributes:
        told: (message, the text in it with the anchor, how far into this text the anchor stands, whether the message
            begins with this text).
        pattern: The anchor with what stands around it in one of these texts.
    """

    def __init__(self, anchor: bytes, messages: Iterable[tuple[Message, bytes]]) -> None:
        self.anchor = anchor
        self.told = [(message, text, text.index(anchor), text is message.always[0]) for message, text in messages]
        self._by_key: dict[bytes, list[tuple[Message, bytes, int, bool]]] = {}
        for one in self.told:
            self._by_key.setdefault(self._key(one[1], one[2]), []).append(one)
        around = sorted({_around(text, at, at + len(anchor)) for _, text, at, _ in self.told})
        self.pattern = re.compile(re.escape(anchor) + b"(?:" + b"|".join(around) + b")")

    def _key(self, text: bytes, at: int) -> bytes:
        """What follows the anchor, b"" where the text ends before."""
        key = text[at + len(self.anchor) :][:_KEY_BYTES]
        return key if len(key) == _KEY_BYTES else b""

    def find(self, data: bytes, at: int, stop: int) -> int:
        """Where it stands next, -1 for nowhere. An anchor is found in a third of the time that a pattern takes."""
        place = data.find(self.anchor, at, stop + len(self.anchor) - 1)
        if place < 0:
            return -1
        match = self.pattern.search(data, place)
        return match.start() if match is not None and match.start() < stop else -1

    def read(self, data: bytes, at: int) -> Iterator[tuple[Message, dict[str, Value], int]]:
        """The messages that have the anchor at this place, and where they begin."""
        key = data[at + len(self.anchor) : at + len(self.anchor) + _KEY_BYTES]
        for message, text, inside, is_first in (*self._by_key.get(key, ()), *self._by_key.get(b"", ())):
            begin = at - inside
            if begin < 0 or not data.startswith(text, begin):
                continue
            if not is_first:
                begin = data.rfind(message.always[0], max(0, begin - _BACK_BYTES), begin)
            if begin >= 0 and (values := message.read_at(data, begin)) is not None:
                yield message, values, begin


def _around(text: bytes, begin: int, end: int) -> bytes:
    """The pattern of what stands behind an anchor, and where that is little, of what stands before it."""
    behind = re.escape(text[end : end + _TAIL_BYTES])
    if len(text) - end >= _TAIL_BYTES // 4:
        return behind
    return b"(?<=" + re.escape(text[max(0, begin - _TAIL_BYTES) : end]) + b")" + behind


def _signs(messages: Sequence[Message], anchors: Sequence[bytes]) -> tuple[_Sign, ...]:
    """One for each anchor; a message is told by the first of its texts with an anchor in it."""
    by_anchor: dict[bytes, list[tuple[Message, bytes]]] = {anchor: [] for anchor in anchors}
    for message in messages:
        text, anchor = next((text, anchor) for text in message.always for anchor in anchors if anchor in text)
        by_anchor[anchor].append((message, text))
    return tuple(_Sign(anchor, told) for anchor, told in by_anchor.items() if told)


_SIGNS = _signs(MESSAGES, ANCHORS)
_ALL_SIGNS = (*_SIGNS, *_signs(ENDINGS, END_ANCHORS))


def _hits(data: bytes, start: int, stop: int, offset: int, lines: _Lines, signs: Sequence[_Sign]) -> Iterator[Hit]:
    """What begins in `data[start:stop]`; the bytes around are context."""
    counted = start
    nexts = {sign: place for sign in signs if (place := sign.find(data, start, stop)) >= 0}
    while nexts:
        sign = min(nexts, key=nexts.__getitem__)
        at = nexts[sign]
        for message, values, first in sign.read(data, at):
            begin = max(data.rfind(b"\n", max(0, first - WINDOW_BYTES), first) + 1, first - WINDOW_BYTES)
            end = data.find(b"\n", first, first + WINDOW_BYTES)
            lines.passed += data.count(b"\n", counted, at)
            counted = at
            yield Hit(
                message=message,
                values=values,
                line=data[begin : end if end >= 0 else first + WINDOW_BYTES],
                at=first - begin,
                place=Place(path=lines.path, line=lines.passed + 1, offset=offset + first),
                buffer=data,
                begin=begin,
            )
        nexts[sign] = sign.find(data, at + 1, stop)
        if nexts[sign] < 0:
            del nexts[sign]
    lines.passed += data.count(b"\n", counted, stop)
