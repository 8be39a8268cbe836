"""KEY -> FOLDER: the user's cache of built shims. An entry is complete or not there; nobody else can have written it.

<cache>/index/<hash of a package's path>.json   which entry belongs to the files as they are now
<cache>/<key>/swapconf-shim.json                what was built; the presence of this file makes a folder ours
<cache>/<key>/cann/lib64/...                    also as <cache>/<key>/latest/lib64
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swapconf.dryrun import DryRunError
from swapconf.files import json_object
from swapconf.files.cache_folder import UNFINISHED, Untrusted, private, replace
from swapconf.files.cache_folder import trust as trust_folder

MARKER = "swapconf-shim.json"
_KEY = re.compile("[0-9a-f]{8,128}")
_ABANDONED_S = 3600  # a build takes seconds


def cache_folder(environment: Mapping[str, str]) -> Path:
    """``$XDG_CACHE_HOME/swapconf/shim``, made if needed. Raises DryRunError if it cannot be made, or trusted."""
    try:
        return private("shim", environment)
    except Untrusted as error:
        raise DryRunError(str(error)) from error


def trust(folder: Path) -> None:
    """Raises DryRunError unless ``folder`` is this user's own: code from it is loaded into the user's processes."""
    try:
        trust_folder(folder)
    except Untrusted as error:
        raise DryRunError(str(error)) from error


def find_entry(cache: Path, key: str) -> Path | None:
    """The complete entry of ``key``. Raises DryRunError if it cannot be trusted."""
    if not _KEY.fullmatch(key):  # it may come from a damaged index, and names a folder
        return None
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
    building = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=cache))
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
    replace(path, json.dumps(content, indent=1))


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``; empty if there is none or it is damaged."""
    return json_object.read(path)


def _remove_abandoned(cache: Path) -> None:
    """What a killed build left behind."""
    for folder in cache.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(folder)
