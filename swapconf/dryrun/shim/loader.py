"""SONAME -> FILE: where the dynamic loader of this system would find a library, read from its cache file."""

from __future__ import annotations

import re
from pathlib import Path

LOADER_CACHE = Path("/etc/ld.so.cache")


def find(soname: str, cache: Path = LOADER_CACHE) -> tuple[Path, ...]:
    """The files that the loader knows as ``soname``; none where there is no cache (musl, NixOS)."""
    try:
        content = cache.read_bytes()
    except OSError:
        return ()
    found = re.findall(rb"(?<=\0)(/[^\0]*/" + re.escape(soname.encode()) + rb")(?=\0)", content)
    paths = (Path(path.decode(errors="surrogateescape")) for path in dict.fromkeys(found))
    return tuple(path for path in paths if path.is_file())
