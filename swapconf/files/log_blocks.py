"""LOG, of any size -> its bytes in blocks, without the colours of a terminal. Rotated parts are one stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from swapconf.files.opening import open_binary

_ESCAPE, _SEQUENCE_BYTES = b"\x1b", 64
_SEQUENCE = re.compile(rb"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]")  # ECMA-48, 5.4: colours and what else moves a cursor


class LogBlocks:
    """The bytes of all parts, one after the other.

    Attributes:
        size_bytes: Read so far, with colours.
        path: The part that the last block is of; None before the first.
        trouble: The parts that could not be read, and why.
    """

    def __init__(self, paths: Iterable[Path], block_bytes: int) -> None:
        self._paths, self._block_bytes = paths, block_bytes
        self.size_bytes = 0
        self.path: Path | None = None
        self.trouble: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[bytes]:
        for path in self._paths:
            try:
                with open_binary(path) as stream:
                    self.path = path
                    rest = b""
                    while block := stream.read(self._block_bytes):
                        self.size_bytes += len(block)
                        block, rest = _plain(rest + block)
                        yield block
                    yield rest
            except OSError as error:
                self.trouble.append((str(path), error.strerror or str(error)))


def _plain(block: bytes) -> tuple[bytes, bytes]:
    """A block without escape sequences, and the beginning of one that goes on in the next block."""
    at = block.rfind(_ESCAPE)
    if at < 0:
        return block, b""
    is_cut = len(block) - at < _SEQUENCE_BYTES and _SEQUENCE.match(block, at) is None
    whole, rest = (block[:at], block[at:]) if is_cut else (block, b"")
    return _SEQUENCE.sub(b"", whole), rest
