"""PROGRAM -> COPIES of weights, which casts read that run again by themselves; and where casts run that move.

The gradients of a micro-batch read what its forward pass has left for them, and MindSpore 2.9.0 leaves them a copy of a
weight (``TensorMove``) instead of the weight: it does so for the weights of norms anyway, and also for that of a cast
that was asked for alone. The copy is made at the start of the micro-batch, and held until the cast runs again; so the
first cast, which reads it, too, runs at the start. In a recomputed cell a cast reads the weight itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import COPY_BACK, TURN


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightCopies:
    """Columns of equal length. ``row``: of the baseline, the block of the weight; ``born``, ``until``: the positions of
    what makes each copy, and of what reads it last."""

    row: Ints
    born: Ints
    until: Ints


def copied(baseline: Baseline, program: StrategyProgram, alone: Flags) -> tuple[StrategyProgram, WeightCopies]:
    """``alone``: [kernels] was asked for itself, not by a cell around it. Also the program with the first casts where
    they then run."""
    kernels = baseline.kernels
    places, rows = dict[int, int](), list[tuple[int, int, int]]()
    if ((kernels.primitives == "TensorMove") & (kernels.passing >= 0)).any():  # else there is one graph for both passes
        turn: dict[int, int] = {}
        for cast, again in zip(program.copies.tolist(), program.inserted.tolist(), strict=True):
            if alone[cast] and kernels.primitive[cast] == "Cast" and cast in baseline.weights:
                begin = int(baseline.upfront[cast])
                if begin >= 0:
                    turn[begin] = turn.get(begin, 0) + 1
                    places[cast] = begin * TICKS - COPY_BACK // 2 + 2 * TURN * turn[begin]
                rows.append((baseline.weights[cast], places.get(cast, int(program.where[cast])) - TURN, again))
    row, born, until = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return program.moved(places), WeightCopies(row=row, born=born, until=until)


def upfront(baseline: Baseline, whole: Collection[str]) -> Ints:
    """[kernels] as `Baseline.upfront`. ``whole``: the names of the layers that are recomputed as a whole.

    Where the copies of weights that norms read stand with room before their readers in every micro-batch, the casts of
    weights that move stand behind them, the first micro-batch included (see `Baseline.anchors`), and both stand behind
    the last layer in front of theirs that is recomputed as a whole (measured with MindSpore 2.9.0: models of mcore).
    """
    walls = _walls(baseline, whole)
    if not walls:
        return baseline.upfront
    kernels, place = baseline.kernels, baseline.upfront.copy()
    has_room: dict[tuple[int, str], bool] = {}  # by cast, in the first micro-batch
    for node in np.flatnonzero(baseline.rootless & (kernels.primitives == "Cast")).tolist():
        kind = int(kernels.layer[node]), kernels.cell[node]
        wall = walls.get(int(kernels.passing[node]), -1)
        if has_room.setdefault(kind, node in baseline.anchors) and wall > place[node] >= 0:
            place[node] = wall
    return place


def _walls(baseline: Baseline, whole: Collection[str]) -> dict[int, int]:
    """By pass the first node behind the last such layer in front of it in its micro-batch."""
    walls = dict[int, int]()
    for batch in baseline.batches:
        wall = -1
        for number, behind in zip(batch, [*batch[1:], -1], strict=True):
            if wall >= 0:
                walls[number] = wall
            if baseline.layer_of(number) in whole and behind >= 0:
                wall = baseline.first_nodes[behind]
    return walls
