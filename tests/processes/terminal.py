"""swapconf as a program of its own: through pipes, and on a terminal that a test holds the other end of."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

from tests.helpers import ROOT

PROGRAM = (sys.executable, "-m", "swapconf")
ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")

# what decides on languages, encodings, colours and widths
_DECIDING = (
    "LC_ALL",
    "LC_MESSAGES",
    "LC_CTYPE",
    "LANG",
    "LANGUAGE",
    "SWAPCONF_LANG",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PYTHONCOERCECLOCALE",
    "NO_COLOR",
    "FORCE_COLOR",
    "TERM",
    "COLUMNS",
    "LINES",
    "MEMORY_FRAGMENTATION",
)


def environment(**variables: str) -> dict[str, str]:
    """This process's, without what decides on the look, and with ``variables``."""
    kept = {name: value for name, value in os.environ.items() if name not in _DECIDING}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def piped(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=environment(**variables),
        timeout=120,
        check=False,
    )


def on_terminal(*words: str | Path, columns: int = 80, errors: bool = False, **variables: str) -> str:
    """The standard output on a terminal; with ``errors``, the standard error there, too."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings: dict[str, Any] = {"TERM": "xterm-256color", **variables}
    with subprocess.Popen(
        [*PROGRAM, *map(str, words)],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
        env=environment(**settings),
    ) as process:
        os.close(theirs)
        parts = []
        with contextlib.suppress(OSError):  # so a terminal ends when its last user does
            while part := os.read(ours, 65536):
                parts.append(part)
        process.wait(timeout=120)
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")
