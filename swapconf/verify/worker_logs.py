"""WORKER LOG, of any size -> what it says of each rank: the decisions it lists, warnings and peaks.

A log can have gigabytes, and little of it matters here: blocks of bytes are searched for a few words, and only what
stands around them becomes text. Rotated parts of a log are read as one stream, oldest first, so that it does not matter
where it was cut. What is held does not grow with a log, nor with its longest line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from swapconf.files.log_blocks import LogBlocks
from swapconf.files.log_folder import RANK_TAG, Stream, number

BLOCK_BYTES = 2**18
MAX_LINE_BYTES = 2**16
MAX_ENTRIES = 200_000

_BEFORE_BYTES = 4096  # of a line before a hit, for the rank at its start
_RANK_BYTES = 2**20  # where a log tells its own rank
_MIB = 2**20

_AT_LAYER, _PEAK = b" at layer ", b"peak memory usage (with"
_OUTSIDE = b"Offload does not take effect outside the scope of the lazy_inline Cell"
_RANK_ID = b"rank id: "

_WHAT = re.compile(
    rb"(Set|Skip) (layer swap|select swap|op_swap|(?:full |exclude )?recompute|"
    rb"select (?:comm )?recompute(?: on| exclude)?)$"
)
_LAYER = re.compile(r"(\d{1,6})(?:\s*$|:\s*|\s+and value is:\s*)")
_VALUE = re.compile(r"\d{1,9}")
_PAIR = re.compile(r"([\w.]{1,200}), value=(\d{1,9})(?:, |\s*$)")
_NAME = re.compile(r"([\w.]{1,200})(?:, |\s*$)")
_SUBJECT = re.compile(r"([\w.]{1,200}), ")
_RULE = re.compile(r"\[([\w-]{1,80})\]\s*$")
_SIZES = re.compile(rb"(Device \w{1,10}|MindSpore Used) memory size: (\d{1,9})M")  # right above the peaks
_ABOVE_BYTES = 1024
_PEAKS = re.compile(rb"(Used|Actual) peak memory usage \((?:without|with) fragments\): (\d{1,9})M")


class LoggedEntry(NamedTuple):
    """One thing that a log says is set at a layer. ``kind``: in the words of the log; ``operator``: without a leading
    dot, "" for the whole layer; ``value``: its prefetch, None for a recompute."""

    layer: int
    kind: str
    operator: str
    value: int | None = None


class Skipped(NamedTuple):
    """One thing that swapconf's log says is not in effect, by which rule."""

    layer: int
    kind: str
    operator: str
    rule: str


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the logs of one rank say.

    The peaks are whole MiB, rounded down; None: not told.

    Attributes:
        outside_lazy_inline: How often MindSpore warns that a swap has no effect.
        device_bytes, limit_bytes: Of the card, and what the pool may take of it.
        size_bytes: Of the logs.
    """

    entries: frozenset[LoggedEntry] = frozenset()
    skipped: frozenset[Skipped] = frozenset()
    outside_lazy_inline: int = 0
    used_peak_bytes: int | None = None
    with_fragments_peak_bytes: int | None = None
    device_bytes: int | None = None
    limit_bytes: int | None = None
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Told:
    """What one stream says, by rank; ``trouble``: a file of it that could not be read, and why."""

    by_rank: dict[int | None, Said]
    trouble: tuple[tuple[str, str], ...] = ()


def parse(line: str) -> tuple[set[LoggedEntry], set[Skipped]]:
    """What one line says, as ``worker_log.lines`` or mindformers write it, with or without a logger's prefix."""
    scanner = _Scanner(tagged=False)
    scanner.scan(f"{line}\n".encode(), 0, len(line.encode()) + 1, 0)
    note = scanner.notes.get(None, _Notes())
    return note.entries, note.skipped


def read(stream: Stream) -> Told:
    """What a stream says. Lines that begin with a rank of their own (``mpirun --tag-output``, ``srun --label``) are
    told apart where the name does not give the rank. A line that breaks off at the end says nothing."""
    scanner = _Scanner(tagged=stream.rank is None)
    blocks = LogBlocks(stream.paths, BLOCK_BYTES)
    buffer, start, offset = b"", 0, 0
    for block in blocks:
        buffer += block
        begin = max(start, len(buffer) - MAX_LINE_BYTES)
        stop = buffer.rfind(b"\n", begin) + 1 or begin
        scanner.scan(buffer, start, stop, offset)
        keep = max(0, stop - _BEFORE_BYTES)
        buffer, start, offset = buffer[keep:], stop - keep, offset + keep
    scanner.scan(buffer, start, len(buffer), offset)
    rank = scanner.rank_id if stream.own_rank and scanner.rank_id is not None else stream.rank
    notes = scanner.notes or {None: _Notes()}
    single = len(notes) == 1
    said: dict[int | None, Said] = {}
    for tag, note in notes.items():
        key = rank if tag is None else tag
        found = note.said(blocks.size_bytes if single or tag is None else 0)
        said[key] = merge([said[key], found]) if key in said else found
    return Told(by_rank=said, trouble=tuple(blocks.trouble))


def merge(said: Iterable[Said]) -> Said:
    """Of several logs of one rank: what stands in more than one of them is said once."""
    every = list(said)
    if len(every) == 1:
        return every[0]

    def highest(peaks: Iterable[int | None]) -> int | None:
        return max((peak for peak in peaks if peak is not None), default=None)

    return Said(
        entries=frozenset().union(*(one.entries for one in every)),
        skipped=frozenset().union(*(one.skipped for one in every)),
        outside_lazy_inline=max((one.outside_lazy_inline for one in every), default=0),
        used_peak_bytes=highest(one.used_peak_bytes for one in every),
        with_fragments_peak_bytes=highest(one.with_fragments_peak_bytes for one in every),
        device_bytes=highest(one.device_bytes for one in every),
        limit_bytes=highest(one.limit_bytes for one in every),
        size_bytes=sum(one.size_bytes for one in every),
    )


@dataclass(slots=True)
class _Notes:
    entries: set[LoggedEntry] = field(default_factory=set)
    skipped: set[Skipped] = field(default_factory=set)
    outside: int = 0
    peaks: dict[bytes, int] = field(default_factory=dict)

    def said(self, size_bytes: int) -> Said:
        return Said(
            entries=frozenset(self.entries),
            skipped=frozenset(self.skipped),
            outside_lazy_inline=self.outside,
            used_peak_bytes=self.peaks.get(b"Used"),
            with_fragments_peak_bytes=self.peaks.get(b"Actual"),
            device_bytes=self.peaks.get(b"Device"),
            limit_bytes=self.peaks.get(b"MindSpore Used"),
            size_bytes=size_bytes,
        )


class _Scanner:
    """Takes notes, by the rank that a line begins with (None: by no rank). ``tagged``: look for such ranks."""

    def __init__(self, tagged: bool) -> None:
        self.notes: dict[int | None, _Notes] = {}
        self.rank_id: int | None = None
        self._tagged = tagged

    def scan(self, data: bytes, start: int, stop: int, offset: int) -> None:
        """Takes what begins in ``data[start:stop]``; the bytes around are context. ``offset``: of data in the log."""
        for at in _hits(data, _AT_LAYER, start, stop):
            self._take_line(data, at, offset)
        for at in _hits(data, _PEAK, start, stop):
            if match := _PEAKS.search(data, max(0, at - 7), at + 60):
                peaks = self._note(data, at, offset).peaks
                peaks[match[1]] = int(match[2]) * _MIB
                for size in _SIZES.finditer(data, max(0, at - _ABOVE_BYTES), at):
                    peaks[b"Device" if size[1].startswith(b"Device") else size[1]] = int(size[2]) * _MIB
        for at in _hits(data, _OUTSIDE, start, stop):
            self._note(data, at, offset).outside += 1
        if self.rank_id is None and offset + start < _RANK_BYTES:
            for at in _hits(data, _RANK_ID, start, min(stop, _RANK_BYTES - offset)):
                digits = re.match(rb"\d{1,6}", data[at + len(_RANK_ID) : at + len(_RANK_ID) + 6])
                if self.rank_id is None and digits and data[max(0, at - 6) : at] != b"local ":
                    self.rank_id = int(digits[0])

    def _take_line(self, data: bytes, at: int, offset: int) -> None:
        what = _WHAT.search(data, max(0, at - 60), at)
        begin = at + len(_AT_LAYER)
        end = data.find(b"\n", begin, at + MAX_LINE_BYTES)
        if what is None or end < 0:
            return
        text = data[begin:end].decode("utf-8", errors="replace")
        kind, layer = what[2].decode(), _LAYER.match(text)
        if layer is None:
            return
        note, index, rest = self._note(data, at, offset), int(layer[1]), text[layer.end() :]
        if len(note.entries) + len(note.skipped) >= MAX_ENTRIES:
            return
        if what[1] == b"Skip":
            subject = None if kind == "layer swap" else _SUBJECT.match(rest)
            rule = _RULE.search(rest)
            note.skipped.add(Skipped(index, kind, subject[1].lstrip(".") if subject else "", rule[1] if rule else ""))
        else:
            note.entries.update(_entries(index, kind, rest, is_bare=layer[0].strip() == layer[1]))

    def _note(self, data: bytes, at: int, offset: int) -> _Notes:
        rank = None
        if self._tagged:
            begin = data.rfind(b"\n", max(0, at - _BEFORE_BYTES), at) + 1
            known = begin or at + offset < _BEFORE_BYTES
            if known and (tag := RANK_TAG.match(data, begin, at)):
                rank = number(tag)
        return self.notes.setdefault(rank, _Notes())


def _hits(data: bytes, word: bytes, start: int, stop: int) -> Iterator[int]:
    end = stop + len(word) - 1
    at = data.find(word, start, end)
    while at >= 0:
        yield at
        at = data.find(word, at + 1, end)


def _entries(layer: int, kind: str, rest: str, *, is_bare: bool) -> Iterator[LoggedEntry]:
    """As far as the line is in the documented form; lines of several threads can run into each other. ``is_bare``: it
    ends with the number of the layer."""
    if kind == "layer swap":
        if value := _VALUE.match(rest):
            yield LoggedEntry(layer, kind, "", int(value[0]))
        elif is_bare:  # of PyNative mode
            yield LoggedEntry(layer, kind, "")
    elif kind in ("recompute", "full recompute"):
        yield LoggedEntry(layer, kind, "")
    else:
        pattern, at = _PAIR if kind == "op_swap" else _NAME, 0
        while match := pattern.match(rest, at):
            yield LoggedEntry(layer, kind, match[1].lstrip("."), int(match[2]) if kind == "op_swap" else None)
            at = match.end()
