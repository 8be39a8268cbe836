"""BYTES -> FILE: another content for a file that exists, whole or not at all; everything else about it stays."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from swapconf.files.opening import read_bytes
from swapconf.files.writing import replace_text, whole
from swapconf.words.phrases import phrase

_MARK = b"\xef\xbb\xbf"


def rewrite_text(path: str | Path, text: str) -> None:
    """``text`` as UTF-8 in a file that exists or not yet; line ends as they are, a byte order mark is kept.

    A link is followed only to a file in its own folder or below. Raises OSError, PermissionError for a link that leads
    elsewhere.
    """
    place = Path(path)
    if place.is_symlink() and not place.resolve().is_relative_to(place.parent.resolve()):
        raise PermissionError(
            phrase(
                "{link} is a link to a file outside its folder, {file}; name that file itself",
                link=path,
                file=place.resolve(),
            )
        )
    if not place.exists():
        replace_text(place, text)
        return
    mark = _MARK if read_bytes(place, len(_MARK)).startswith(_MARK) else b""
    replace_content(place, mark + text.encode("utf-8"))


def replace_content(path: str | Path, content: bytes) -> None:
    """Give a file another content. A symbolic link stays one, and permissions and, where allowed, the owner stay.

    Raises OSError when the file does not exist or must not be written.
    """
    target = Path(path).resolve(strict=True)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    before = target.stat()
    with whole(target, 0o600) as stream:
        stream.write(content)
        with contextlib.suppress(PermissionError):
            os.fchown(stream.fileno(), before.st_uid, before.st_gid)
        os.fchmod(stream.fileno(), stat.S_IMODE(before.st_mode))
