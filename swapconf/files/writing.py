"""TEXT -> FILE: what swapconf leaves for its user. Whole or not at all, and through no link of others."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from swapconf.files.opening import open_binary
from swapconf.words.phrases import phrase


@contextmanager
def whole(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """What is written to the stream becomes the content of ``path`` when the block ends well, at once; else, as on a
    full disk, all stays as it was. ``mode``: of the file, as far as the umask leaves it.

    A link at ``path`` is replaced, not followed. Raises OSError, which names ``path``.
    """
    part = path.with_name(f".{path.name[:80]}.{os.urandom(8).hex()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with open(descriptor, "wb") as stream:
            yield stream
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` at ``path`` in UTF-8, see `whole`. What is no text (half of a surrogate pair) is spelled out."""
    with whole(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))


def replace_by_copy(path: Path, source: Path) -> None:
    """Put the content of a file at ``path``, see `whole`."""
    with whole(path) as stream, open_binary(source) as content:
        while piece := content.read(2**20):
            stream.write(piece)


def write_named(path: Path, text: str) -> None:
    """The same for a file that the user named: a link there is the user's own and is followed, and a device or a pipe
    is written to. Raises OSError."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        check_writable(place)
        with open(place, "wb") as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
        return
    check_writable(place)
    replace_text(place, text)


def check_writable(path: Path) -> None:
    """Raises the OSError with which a file that the user named could not be written, as far as it shows before."""
    place = path.resolve()
    known = place if place.exists() else place.parent
    if not known.exists():
        raise FileNotFoundError(errno.ENOENT, phrase("there is no folder {folder}", folder=path.parent), str(path))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(known, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def refuse_links(folder: Path, names: tuple[str, ...]) -> None:
    """Raise OSError if the folder, or one of these names in it, is a link: what is written there would go elsewhere."""
    for path in (folder, *(folder / name for name in names)):
        if path.is_symlink():
            raise OSError(errno.ELOOP, phrase("is a link, which could lead the files elsewhere; remove it"), str(path))
