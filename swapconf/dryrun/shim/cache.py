"""KEY -> FOLDER: the user's cache of built shims. An entry is complete or not there; nobody else can have written it.

    <cache>/index/<hash of a package's path>.json   which entry belongs to the files as they are now
    <cache>/<key>/swapconf-shim.json                what was built; the presence of this file makes a folder ours
    <cache>/<key>/cann/lib64/...
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swapconf.dryrun import DryRunError

MARKER = "swapconf-shim.json"
_BUILDING = ".building-"
_ABANDONED_S = 3600  # a build takes seconds


def cache_folder(environment: Mapping[str, str]) -> Path:
    """``$XDG_CACHE_HOME/swapconf/shim``, made if needed. Raises DryRunError if it cannot be made, or trusted."""
    configured = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME", "")
    # The specification wants relative values ignored.
    base = Path(configured) if configured.startswith("/") else Path(home or Path.home()) / ".cache"
    folder = base / "swapconf" / "shim"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise DryRunError(f"cannot make the cache folder {folder} ({error.strerror}); "
                          "set XDG_CACHE_HOME to a folder you can write to") from error
    trust(folder.parent.resolve())
    trust(folder)
    return folder


def trust(folder: Path) -> None:
    """Raise DryRunError unless ``folder`` is a real folder of this user that nobody else can write to.

    Code from it is loaded into the user's processes, so whoever can write to it can run anything as this user.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        problem = "is no folder but a link or a file"
    elif status.st_uid != os.geteuid():
        problem = f"belongs to another user (id {status.st_uid})"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"can be written to by others (mode {stat.S_IMODE(status.st_mode):o}; `chmod go-w` ends that)"
    else:
        return
    raise DryRunError(f"the cache folder {folder} {problem}, so libraries in it cannot be trusted; "
                      f"remove it, or set XDG_CACHE_HOME to a folder of your own")


def find_entry(cache: Path, key: str) -> Path | None:
    """The complete entry of ``key``. Raises DryRunError if it cannot be trusted."""
    entry = cache / key
    if not os.path.lexists(entry):
        return None
    trust(entry)
    return entry if (entry / MARKER).is_file() else None


@contextlib.contextmanager
def new_entry(cache: Path, key: str) -> Iterator[Path]:
    """A folder to fill; it becomes the entry of ``key`` when the block ends, unless another process was faster."""
    _remove_abandoned(cache)
    # mkdtemp makes it 0700 whatever the umask is.
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=cache))
    try:
        yield building
        if find_entry(cache, key) is None:
            shutil.rmtree(cache / key, ignore_errors=True)
            # Renaming onto an entry fails, because that is not empty: then another process was faster.
            with contextlib.suppress(OSError):
                building.rename(cache / key)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def write_json(path: Path, content: object) -> None:
    """Replace ``path`` as a whole, so that readers see the old or the new content."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=_BUILDING, dir=path.parent)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(name, path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``; empty if there is none or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remove_abandoned(cache: Path) -> None:
    """What a killed build left behind."""
    for folder in cache.glob(f"{_BUILDING}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(folder)
