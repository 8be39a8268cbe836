"""TEXT of a message -> BYTES. What is no plain number is not known; what is one that no memory has stays a text."""

from __future__ import annotations

import re

from swapconf.words.units import GIB, MIB

_MOST_BYTES = 2**62
_WHOLE = re.compile(rb"(-?\d{1,30})(?:B|bytes)?")
_SCALED = re.compile(rb"(-?\d{1,30}(?:\.\d{1,9})?) ?(bytes|[KMGTP]i?B?|B)")
_UNITS = {b"B": 1, b"b": 1, b"K": 1 << 10, b"M": MIB, b"G": GIB, b"T": 1 << 40, b"P": 1 << 50}


def whole_bytes(text: bytes) -> int | str | None:
    """``301990400``, ``8192B`` -> bytes."""
    match = _WHOLE.fullmatch(text.rstrip(b"."))
    return _known(int(match[1]), text) if match else None


def scaled_bytes(text: bytes) -> int | str | None:
    """``59392M``, ``58G``, ``60.97 GiB``, ``0 bytes`` -> bytes; K, M, G are KiB, MiB, GiB, as MindSpore and torch_npu
    mean them."""
    match = _SCALED.fullmatch(text.rstrip(b"."))
    return _known(round(float(match[1]) * _UNITS[match[2][:1]]), text) if match else None


def small_number(text: bytes) -> int | None:
    """An id: of a device, a rank, a stream."""
    return int(text) if text.isdigit() and len(text) < 7 else None


def gib_bytes(text: bytes) -> int:
    """``91.97`` GiB -> bytes."""
    return round(float(text) * GIB)


def signed_number(text: bytes) -> int | None:
    """The code that a process ended with."""
    return int(text)


def _known(size_bytes: int, text: bytes) -> int | str:
    return size_bytes if 0 <= size_bytes <= _MOST_BYTES else text.decode("ascii", "replace")
