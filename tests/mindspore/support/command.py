"""The command line in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def swapconf(*words: str) -> Any:
    """What it answers as JSON; it has to succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "swapconf", *words, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
