"""FOLDER -> how far a child came, as the files tell that it leaves behind."""

from __future__ import annotations

from swapconf import json_object
from swapconf.dryrun.job import Folder
from swapconf.phrases import phrase


def came_to(folder: Folder) -> str:
    """In words, behind what happened there."""
    if not folder.flags.exists():
        return phrase("while the model was built")
    done = steps_done(folder)
    return phrase("in step {step}", step=done + 1) if done else phrase("while the graph was compiled or in step 1")


def steps_done(folder: Folder) -> int:
    done = json_object.read(folder.result).get("steps")
    return done if isinstance(done, int) and done > 0 else 0


def peak_bytes(folder: Folder) -> int | None:
    """What MindSpore itself says was in use at most until the last step that was done; None without one."""
    peak = json_object.read(folder.result).get("max_memory_allocated_bytes")
    return peak if isinstance(peak, int) and steps_done(folder) else None
