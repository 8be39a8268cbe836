"""TEXT -> FILE: what swapconf leaves for its user. Whole or not at all, and through no link of others."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from swapconf.phrases import phrase


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` at ``path`` in UTF-8, with the mode that the umask leaves; a reader sees the old or the new content.

    A link at ``path`` is replaced, not followed. What is no text (half of a surrogate pair) is spelled out. Raises
    OSError.
    """
    data = text.encode("utf-8", "backslashreplace")
    part = path.with_name(f".{path.name[:80]}.{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_named(path: Path, text: str) -> None:
    """The same for a file that the user named: a link there is the user's own and is followed, and a device or a pipe
    is written to. Raises OSError."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with open(place, "wb") as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
    else:
        replace_text(place, text)


def refuse_links(folder: Path, names: tuple[str, ...]) -> None:
    """Raise OSError if the folder, or one of these names in it, is a link: what is written there would go elsewhere."""
    for path in (folder, *(folder / name for name in names)):
        if path.is_symlink():
            raise OSError(errno.ELOOP, phrase("is a link, which could lead the files elsewhere; remove it"), str(path))
