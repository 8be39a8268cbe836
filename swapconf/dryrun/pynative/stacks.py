"""FILES OF THE TRACKER -> the same without the stacks of Python frames.

Where operators do not run behind Python's back, the tracker writes down with each of them, with each block and with
each task from where Python called it, which makes its files 15 times as large. Nothing of swapconf reads it.
"""

from __future__ import annotations

import re
from pathlib import Path

from swapconf.files.opening import open_binary
from swapconf.files.writing import whole
from swapconf.trace.trace_folder import BLOCKS, GRAPH, TASKS

_FRAME = re.compile(rb"File:[^;|\n]*;Line:\d+;Function:[^|\n]*\|")
_ONLY_FRAMES = b"    # File:"


def leave_out(folder: Path) -> None:
    """``folder``: where the child worked; the tracker writes there, or into ``rank_N`` below it. Raises OSError."""
    for name in (BLOCKS, GRAPH, TASKS):
        for file in (*folder.glob(name), *folder.glob(f"rank_*/{name}")):
            with open_binary(file) as lines, whole(file) as stream:
                stream.writelines(_FRAME.sub(b"", line) for line in lines if not line.startswith(_ONLY_FRAMES))
