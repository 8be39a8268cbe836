"""NAME -> BYTES: how every file that a user or a folder names is opened. Nothing waits for a writer or has no end.

A file is a regular file. A pipe or a device is read only where the shell holds it open already (``/dev/stdin`` and
``/dev/fd/N``, so ``cat FILE | swapconf check /dev/stdin`` and ``swapconf check <(generate)``), and up to a bound.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from swapconf.words.phrases import phrase

MAX_STREAM_BYTES = 64 * 2**20
_HELD_OPEN = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/(?:self|\d+)/fd/\d+")
_WHAT: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, phrase("a pipe, not a file; give a file, or let the shell open it: `< PIPE` and /dev/stdin")),
    (stat.S_ISSOCK, phrase("a socket, not a file")),
    (stat.S_ISCHR, phrase("a device, not a file")),
    (stat.S_ISBLK, phrase("a device, not a file")),
)


def open_binary(path: str | Path) -> BinaryIO:
    """A file to read bytes from. What the shell holds open and is no file is read here, whole.

    Raises OSError, which says what it is where it is no file.
    """
    stream, is_file = _open(path)
    if is_file:
        return stream
    with stream:
        data = stream.read(MAX_STREAM_BYTES + 1)
    if len(data) > MAX_STREAM_BYTES:
        raise OSError(
            errno.EFBIG,
            phrase("more than {size:,} bytes come out of it; give a file", size=MAX_STREAM_BYTES),
            str(path),
        )
    return BytesIO(data)


def read_bytes(path: str | Path, most: int) -> bytes:
    """The first ``most + 1`` bytes of a file, so that it shows whether there are more than ``most``. Raises OSError."""
    stream, _ = _open(path)
    with stream:
        return stream.read(most + 1)


def is_readable(path: str | Path) -> bool:
    """Whether a name that a folder holds is worth opening: False for a pipe, a socket and a device, also behind a
    link. What cannot be looked at, such as a link to nothing, is for whoever opens it to tell."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return True
    return not any(is_kind(mode) for is_kind, _ in _WHAT)


def is_held_open(path: str | Path) -> bool:
    """Whether a name means what the shell has opened already, which may be read only once."""
    return bool(_HELD_OPEN.fullmatch(os.fspath(path)))


def _open(path: str | Path) -> tuple[BinaryIO, bool]:
    """Opened, and whether it is a regular file. Looked at before, because to open a device may do something, and
    afterwards, because it may have become another one."""
    is_held = is_held_open(path)
    if not is_held:
        _refuse(os.stat(path).st_mode, path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not is_held:
            _refuse(mode, path)
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb"), stat.S_ISREG(mode)
    except BaseException:
        os.close(descriptor)
        raise


def _refuse(mode: int, path: str | Path) -> None:
    for is_kind, what in _WHAT:
        if is_kind(mode):
            raise OSError(errno.EINVAL, phrase("it is {what}", what=what), str(path))
