"""MARKS.JSON + BLOCKS -> MARKS: when, in the tracker's order, each part of a PyNative run began and ended.

The tracker names no cells in PyNative mode. The child of a dry run therefore sets one tensor to zero at each of these
moments, and writes down which they were; the tasks that use the block of this tensor are when they were. It is a block
of 512 B that is never released and has exactly as many users, the first of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from swapconf.files import json_object
from swapconf.files.table_lines import GARBLED, INCOMPLETE, Damage
from swapconf.trace.blocks import Blocks
from swapconf.trace.lifetimes import NEVER
from swapconf.words.phrases import phrase

FILE = "marks.json"
MOMENTS = "moments"  # the key in it: [moment, layer] of each mark, and the path in the layer where it is a module's
MOVED, HOST = "moved", "host_peak_bytes"  # [layer, bytes] of each tensor that the last step moved; the most at once
NO_LAYER = -1
MARKER_BYTES = 512
# views, waits and collectives compute nothing, and a mark is none of the model's
_COLLECTIVES = ("GatherIntoTensor", "ScatterTensor", "AllGather", "ReduceScatter", "AllReduce", "AllToAllV")
NO_KERNELS = ("View", "Reshape", "InplaceZero", "Event", "ResizeStorage", *_COLLECTIVES, "Isend", "Irecv")


class Moment(Enum):
    """What a mark stands for: of the run, of a pass of the step, or of a layer in it. A module turns when its backward
    pass begins. A model is what a rank has of one stage, and begins and ends with each micro-batch."""

    OPTIMIZER_IS_BUILT = "optimizer is built"
    OPTIMIZER_STANDS = "optimizer stands"
    STEP_BEGINS = "step begins"
    MODEL_BEGINS = "model begins"
    MODEL_ENDS = "model ends"
    FORWARD_BEGINS = "forward begins"
    FORWARD_ENDS = "forward ends"
    MODULE_BEGINS = "module begins"
    MODULE_ENDS = "module ends"
    MODULE_TURNS = "module turns"
    BACKWARD_PASS_BEGINS = "backward pass begins"
    BACKWARD_BEGINS = "backward begins"
    RECOMPUTE_BEGINS = "recompute begins"
    RECOMPUTE_ENDS = "recompute ends"
    BACKWARD_ENDS = "backward ends"
    BACKWARD_PASS_ENDS = "backward pass ends"
    OPTIMIZER_BEGINS = "optimizer begins"
    STEP_ENDS = "step ends"


@dataclass(frozen=True, slots=True)
class Mark:
    """``event``: the tracker's. ``layer``: NO_LAYER for what is of the whole step. ``module``: the dotted path in the
    layer of the module whose pass it is, "" for others; runs that recompute or swap mark no modules."""

    event: int
    moment: Moment
    layer: int
    module: str = ""


def read(path: Path, blocks: Blocks) -> tuple[Mark, ...]:
    """The marks of a run, in their order. Raises SwapconfError, with what is wrong with the file."""
    damage = Damage(path)
    try:
        moments = list(_moments(json_object.read(path).get(MOMENTS)))
    except (KeyError, TypeError, ValueError):
        damage.add(GARBLED, phrase("this is not a list of moments and layers"))
        damage.refuse()
        raise AssertionError("refuse raises") from None
    counts = np.diff(blocks.user_offsets)
    fits = (counts == len(moments)) & (blocks.size_bytes == MARKER_BYTES) & (blocks.end == NEVER)
    if not moments or not fits.any():
        damage.add(
            INCOMPLETE, phrase("no block of {file} was used as often as there are marks", file="memory_block.csv")
        )
    damage.refuse()
    marker = int(np.flatnonzero(fits)[0])
    events = blocks.users[blocks.user_offsets[marker] : blocks.user_offsets[marker + 1]].tolist()
    return tuple(Mark(event, *told) for event, told in zip(sorted(events), moments, strict=True))


def moved_by(path: Path) -> tuple[tuple[tuple[int, int], ...], int]:
    """(layer, bytes) of each tensor that the last step moved to the host, and the most bytes there at once; nothing
    where the file does not tell."""
    told = json_object.read(path)
    rows, most = told.get(MOVED), told.get(HOST)
    pairs = rows if isinstance(rows, list) else []
    found = tuple((row[0], row[1]) for row in pairs if isinstance(row, list) and list(map(type, row)) == [int, int])
    return found, most if isinstance(most, int) else 0


def _moments(told: object) -> Iterator[tuple[Moment, int, str]]:
    if not isinstance(told, list):
        raise TypeError
    for moment, layer, *module in told:
        if not isinstance(layer, int) or not all(isinstance(path, str) for path in module) or len(module) > 1:
            raise TypeError
        yield Moment(moment), layer, *(module or [""])
