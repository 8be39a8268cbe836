"""A PAGE -> what its commands print where they are run one after the other, beside what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.helpers import ROOT

_BLOCK = re.compile(r"^```text\n\$ (.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PEAK = re.compile(r"completed +(?P<peak>\S+) .*  (?P<moved>-|\d+ tensors, \S+) +(?P<again>\d+) kernels", re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str]]:
    """(command, what is shown below it)."""
    return _BLOCK.findall(text)


def run(command: str, folder: Path, python: Path) -> str:
    """What it prints on both streams."""
    done = subprocess.run(
        [str(python), "-m", *shlex.split(command)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    return done.stdout


def from_where_it_shows(shown: str, printed: str) -> list[str]:
    """The lines that are printed, without findings and the progress of dry runs before the first one that is shown."""
    lines, first = printed.rstrip().splitlines(), shown.splitlines()[0]
    return lines[lines.index(first) if first in lines else 0 :]


def is_like(shown: str, printed: str) -> bool:
    """Whether a dry run moved and ran again as much, and needs as much within 1 %."""
    from swapconf.words.units import parse_bytes

    told, here = PEAK.search(shown), PEAK.search(printed)
    return (
        told is not None
        and here is not None
        and (here["moved"], here["again"]) == (told["moved"], told["again"])
        and abs(parse_bytes(here["peak"]) / parse_bytes(told["peak"]) - 1) < 0.01
    )
