"""WORKER LOG -> WorkerLog: the lines of a worker's log that tell about memory, strategy and failure.

A log is free text that other libraries write to as well, so nothing in it is refused; what is not found stays unknown.
MindSpore prints the memory lines when the process ends, also after a failure, with the peaks reached by then. It
writes M for 2^20 bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from swapconf.files.opening import open_binary
from swapconf.files.table_lines import NOT_FOUND, Damage
from swapconf.trace.trace import Notice, WorkerLog
from swapconf.words.phrases import phrase

MAX_LINE_BYTES = 2**16

_MIB = 2**20
_SIZES = {
    "device_bytes": re.compile(r"Device MOC memory size: (\d{1,9})M"),
    "usable_bytes": re.compile(r"MindSpore Used memory size: (\d{1,9})M"),
    "used_peak_bytes": re.compile(r"Used peak memory usage \(without fragments\): (\d{1,9})M"),
    "with_fragments_peak_bytes": re.compile(r"Actual peak memory usage \(with fragments\): (\d{1,9})M"),
}
_ADDRESS = re.compile(r"MindSpore memory base address: 0x([0-9a-f]{1,16})")
_STRATEGY = re.compile(r"((?:Set|Skip) .*\bat layer \S.*)")
_NOTICES = {
    Notice.OUTSIDE_LAZY_INLINE: "Offload does not take effect outside the scope of the lazy_inline Cell",
    Notice.RECOMPUTE_WINS: "Node can not be recomputed and offloaded at the same time",
    Notice.POOL_BLOCK_CUT: "SetMemPoolBlockSize] Memory pool block size",
}
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::.*)?")
_FATAL = re.compile(r"Fatal Python error: .*")


def read(path: str | Path) -> WorkerLog:
    """What a log file tells. Raises SwapconfError if there is no such file."""
    damage = Damage(path)
    try:
        with open_binary(path) as stream:
            return parse(_lines(iter(lambda: stream.readline(MAX_LINE_BYTES), b"")))
    except OSError as error:
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror or error))
    damage.refuse()
    raise AssertionError("refuse raises")


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Of a line that is too long, what is left of it is another line."""
    return (chunk.decode("utf-8", errors="replace").rstrip("\r\n") for chunk in chunks)


def parse(lines: Iterable[str]) -> WorkerLog:
    """What the lines of a log tell; of a value that stands there twice, the last one."""
    sizes: dict[str, int] = {}
    strategy: list[str] = []
    notices: Counter[Notice] = Counter()
    address: int | None = None
    errors = _Errors()
    for line in lines:
        errors.take(line)
        for name, pattern in _SIZES.items():
            if match := pattern.search(line):
                sizes[name] = int(match[1]) * _MIB
        if match := _ADDRESS.search(line):
            address = int(match[1], 16)
        if match := _STRATEGY.search(line):
            strategy.append(" ".join(match[1].split()))
        notices.update(notice for notice, words in _NOTICES.items() if words in line)
    return WorkerLog(**sizes, base_address=address, strategy=tuple(strategy), notices=dict(notices), error=errors.last)


class _Errors:
    """The exception at the end of a traceback: the first line after it that is not indented and begins like one;
    lines of other threads can stand in between."""

    def __init__(self) -> None:
        self.last = ""
        self._inside = False

    def take(self, line: str) -> None:
        if _TRACEBACK in line:
            self._inside = True
        elif fatal := _FATAL.search(line):
            self.last = fatal[0]
        elif self._inside and _EXCEPTION.fullmatch(line.rstrip()):
            self.last, self._inside = line.strip(), False
