"""Recorded graphs of true runs, as MindSpore printed them in front of some passes, by family."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from gzip import compress
from pathlib import Path
from tempfile import TemporaryDirectory

from swapconf.trace import launch_graph
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.whatif.lift import early_text
from swapconf.whatif.lift.func_graphs import EarlyGraph
from tests.helpers import TRACES


@dataclass(frozen=True)
class EarlyRuns:
    """``archive``: its name in `tests/traces`, without its ending."""

    archive: str

    def text(self, family: str, name: str) -> bytes:
        return _texts(self.archive)[f"{family}/{name}"]

    def early(self, family: str, name: str) -> EarlyGraph:
        """Read anew each time, as passes edit it."""
        with TemporaryDirectory() as place:
            path = Path(place) / name
            path.write_bytes(self.text(family, name))
            return early_text.read(path)

    def last(self, family: str) -> LaunchGraph:
        """The last graph."""
        return _last(self.archive, family)


@cache
def _last(archive: str, family: str) -> LaunchGraph:
    with TemporaryDirectory() as place:
        path = Path(place) / launch_graph.FILE
        path.write_bytes(compress(_texts(archive)[f"{family}/last_graph.json"]))
        return launch_graph.read(path)


@cache
def _texts(archive: str) -> dict[str, bytes]:
    with tarfile.open(TRACES / f"{archive}.tar.xz") as files:
        members = {member.name: files.extractfile(member) for member in files.getmembers()}
        return {name: content.read() for name, content in members.items() if content is not None}


def hashed(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
