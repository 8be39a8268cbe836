"""NAME -> FOLDER: the user's own cache. Nobody else can have written what is in it, or it is not used."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from swapconf.files.writing import whole
from swapconf.words.phrases import phrase

UNFINISHED = ".building-"  # before the names of what is not whole yet


class Untrusted(Exception):
    """A cache that cannot be made, or that others could have written to; the text says why and what to do."""


def private(name: str, environment: Mapping[str, str]) -> Path:
    """``$XDG_CACHE_HOME/swapconf/NAME``, made with mode 0700 if needed. Raises Untrusted."""
    folder = place(name, environment)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Untrusted(
            phrase(
                "cannot make the cache folder {folder} ({reason}); set XDG_CACHE_HOME to a folder you can write to",
                folder=folder,
                reason=error.strerror,
            )
        ) from error
    trust(folder.parent.resolve())  # a link there is the user's own way to another disk
    trust(folder)
    return folder


def place(name: str, environment: Mapping[str, str]) -> Path:
    """Where it is, made or not. A relative XDG_CACHE_HOME is ignored, as its specification wants."""
    configured, home = environment.get("XDG_CACHE_HOME", ""), environment.get("HOME", "")
    base = Path(configured) if configured.startswith("/") else Path(home or Path.home()) / ".cache"
    return base / "swapconf" / name


def trust(folder: Path) -> None:
    """Raise Untrusted unless ``folder`` is a real folder of this user that nobody else can write to.

    Libraries from a cache are loaded into the user's processes, and figures from it decide what is run, so whoever can
    write to it acts as this user.
    """
    try:
        status = folder.lstat()
    except OSError as error:
        raise Untrusted(
            phrase("the cache folder {folder} cannot be looked at ({reason})", folder=folder, reason=error.strerror)
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        problem = phrase("is no folder but a link or a file")
    elif status.st_uid != os.geteuid():
        problem = phrase("belongs to another user (id {user})", user=status.st_uid)
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = phrase(
            "can be written to by others (mode {mode:o}; `chmod go-w` ends that)", mode=stat.S_IMODE(status.st_mode)
        )
    else:
        return
    raise Untrusted(
        phrase(
            "the cache folder {folder} {problem}, so what is in it cannot be trusted; remove it, or set "
            "XDG_CACHE_HOME to a folder of your own",
            folder=folder,
            problem=problem,
        )
    )


def replace(path: Path, text: str) -> None:
    """Put ``text`` at ``path``, mode 0600; a reader sees the old or the new content, never half. Raises OSError."""
    with whole(path, 0o600) as stream:
        stream.write(text.encode("utf-8"))
