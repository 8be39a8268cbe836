"""FILE -> OBJECT: a JSON file that a program wrote beside others. Whatever is wrong with it, there is nothing in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swapconf.files.opening import read_bytes

MAX_BYTES = 64 * 2**20


def read(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none, or it is damaged, larger than 64 MiB, or no regular file."""
    try:
        data = read_bytes(path, MAX_BYTES)
        content = json.loads(data) if len(data) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
