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
    return ended(command, folder, python).stdout


def ended(command: str, folder: Path, python: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """How it ends, and what it prints on both streams. ``variables``: of its environment."""
    return subprocess.run(
        [str(python), "-m", *shlex.split(command)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )


def from_where_it_shows(shown: str, printed: str) -> list[str]:
    """The lines that are printed, without findings and the progress of dry runs before the first one that is shown."""
    lines, first = printed.rstrip().splitlines(), shown.splitlines()[0]
    return lines[lines.index(first) if first in lines else 0 :]


def is_part(shown: str, printed: str) -> bool:
    """Whether what is shown was printed; a line ``...`` stands for any others."""
    lines = ("(?:.*\n)*?" if line == "..." else f"{re.escape(line)}\n" for line in shown.splitlines())
    return re.search("^" + "".join(lines), printed, re.MULTILINE) is not None


def is_like(shown: str, printed: str) -> bool:
    """Whether a dry run moved and ran again as much on each rank, and needs as much within 1 %."""
    from swapconf.words.units import parse_bytes

    told, here = list(PEAK.finditer(shown)), list(PEAK.finditer(printed))
    return len(told) == len(here) > 0 and all(
        (mine["moved"], mine["again"]) == (one["moved"], one["again"])
        and abs(parse_bytes(mine["peak"]) / parse_bytes(one["peak"]) - 1) < 0.01
        for one, mine in zip(told, here, strict=True)
    )
