"""FOLDER -> how far a child came, as the files tell that it leaves behind; while it runs and afterwards.

MindSpore itself says in the log which action of compiling begins ("Status record: start optimize action."), where the
module PIPELINE of it logs, as `dryrun/launch.py` asks for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from swapconf.dryrun.job import Folder
from swapconf.files import json_object
from swapconf.words.phrases import mark, phrase

_RECORD = re.compile(rb"Status record: (start|end) ([\w-]+) action")
_LONGEST = 512  # bytes of such a line, at most
_LAST_ACTION = "execute"


class Station(Enum):
    """In the order in which a child passes them."""

    STARTING = mark("starting")
    BUILDING = mark("building the model")
    COMPILING = mark("compiling")
    RUNNING = mark("running step {step}")
    ENDING = mark("writing its trace")


@dataclass(frozen=True, slots=True)
class Came:
    """``action``: what MindSpore calls the part of compiling that it is at, "" where it does not tell. ``step``: the
    training step that it is in, 0 before the first."""

    station: Station
    action: str = ""
    step: int = 0

    @property
    def words(self) -> str:
        """``compiling (type_inference)``, ``running step 2``."""
        told = phrase(self.station.value, step=self.step)
        return phrase("{station} ({action})", station=told, action=self.action) if self.action else told


class Reader:
    """Reads a log that grows; asked again, it reads only what is new."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._read = folder, 0
        self._action, self._is_compiled = "", False

    def look(self) -> Came:
        self._read_on()
        if not self._folder.flags.exists():
            return Came(Station.BUILDING if self._read else Station.STARTING)
        done = steps_done(self._folder)
        if json_object.read(self._folder.result).get("is_trained") is True:
            return Came(Station.ENDING)
        if done or self._is_compiled or not compiles(self._folder):
            return Came(Station.RUNNING, step=done + 1)
        return Came(Station.COMPILING, self._action)

    def _read_on(self) -> None:
        try:
            with self._folder.log.open("rb") as stream:
                start = max(self._read - _LONGEST, 0)  # a line may have been written in part
                stream.seek(start)
                new = stream.read()
        except OSError:
            return
        self._read = start + len(new)
        for kind, name in _RECORD.findall(new):
            self._action = name.decode()
            self._is_compiled = kind == b"end" and self._action == _LAST_ACTION


def came_to(folder: Folder) -> str:
    """In words, behind what happened there."""
    came = Reader(folder).look()
    if came.station in (Station.STARTING, Station.BUILDING):
        return phrase("while the model was built")
    if came.station is Station.ENDING:
        return phrase("while it wrote its trace")
    if came.step:
        return phrase("in step {step}", step=came.step)
    if came.action:
        return phrase("while the graph was compiled ({action})", action=came.action)
    return phrase("while the graph was compiled or in step 1")


def steps_done(folder: Folder) -> int:
    done = json_object.read(folder.result).get("steps")
    return done if isinstance(done, int) and done > 0 else 0


def compiles(folder: Folder) -> bool:
    """Not so in PyNative mode."""
    return json_object.read(folder.result).get("compiles") is not False


def hyper_parallel(folder: Folder) -> str:
    """Which one a PyNative run had, "" in graph mode."""
    return str(json_object.read(folder.flags).get("hyper_parallel", ""))


def peak_bytes(folder: Folder) -> int | None:
    """What MindSpore itself says was in use at most until the last step that was done; None without one."""
    peak = json_object.read(folder.result).get("max_memory_allocated_bytes")
    return peak if isinstance(peak, int) and steps_done(folder) else None
