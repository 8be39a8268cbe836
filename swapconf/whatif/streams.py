"""USES by communication -> UNTIL: how long a block is held that another stream than the main one reads.

MindSpore 2.9.0 holds it until the main stream waits for that stream: not only for what reads the block, but for
anything that was launched there behind it, as a stream runs in order (measured: in 6 of 19 traces for every block; in
the others 4 to 12 blocks are released earlier, presumably those that nobody waits for before the step ends).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import TURN


def released(position: Ints, stream: Ints, maker: Ints, maker_stream: Ints, launches: Ints) -> Ints:
    """[uses] the position of the last launch before the end of each use. ``position``, ``stream``: of the kernel that
    uses a block; ``maker``, ``maker_stream``: of the one that made it; ``launches``: ascending, all kernels."""
    until = position.copy()
    waits = np.flatnonzero((stream == 0) & (maker_stream > 0))
    for number in np.unique(stream[stream > 0]).tolist():
        here = waits[maker_stream[waits] == number]
        here = here[np.argsort(maker[here], kind="stable")]
        soonest = np.minimum.accumulate(position[here][::-1])[::-1]  # of what waits for this launch or a later one
        uses = np.flatnonzero(stream == number)
        place = np.searchsorted(maker[here], position[uses])
        waited = place < len(here)
        end = launches[np.maximum(np.searchsorted(launches, soonest[place[waited]]) - 1, 0)]
        until[uses[waited]] = np.maximum(end, position[uses[waited]])
    return until


def sent_ahead(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program, where what the forward pass made is sent to the next stage before anything runs again in the
    backward pass, although gradients were launched before it in the baseline. Stages meet in the same order as there:
    in another one they would wait for each other in a circle."""
    kernels, reads = baseline.kernels, baseline.reads
    again = np.sort(program.inserted)
    places: dict[int, int] = {}
    for send in np.flatnonzero(kernels.primitives == "Send").tolist():
        made = [int(baseline.maker[reads.block[row]]) for row in baseline.rows_of(send)]
        if made and min(made) >= 0 and not kernels.backward[made].any():
            ready = int(program.where[made].max())
            first = int(np.searchsorted(again, ready))
            if first < len(again) and again[first] < program.where[send]:
                places[send] = int(again[first]) - TURN
    moved = program.moved(places)
    met = np.flatnonzero(np.isin(kernels.primitives, ("Send", "Receive")))
    turns = dict(zip(met.tolist(), np.sort(moved.where[met]).tolist(), strict=True))
    return moved if [*turns.values()] == moved.where[met].tolist() else moved.moved(turns)


def in_order(baseline: Baseline, program: StrategyProgram) -> StrategyProgram:
    """The same program, with the end of each use. What is not run again keeps its order on each stream."""
    kernel_stream, count = baseline.kernels.stream, len(baseline.maker)
    if not kernel_stream.any():
        return replace(program, until=program.position)
    turn = program.where.copy()
    for number in np.unique(kernel_stream[kernel_stream > 0]).tolist():
        turn[kernel_stream == number] = np.sort(turn[kernel_stream == number])
    streams = np.append(kernel_stream, 0)  # the last: of what `shared` adds
    made = baseline.maker[np.concatenate([np.arange(count), program.origin])]
    maker = np.concatenate([turn[made[:count]], program.born])
    launches = np.sort(np.concatenate([program.where, program.inserted]))
    moved = np.where(program.again | (streams[program.reader] == 0), program.position, turn[program.reader])
    until = released(moved, streams[program.reader], maker[program.block], streams[made[program.block]], launches)
    return replace(program, until=np.maximum(until, program.position))
