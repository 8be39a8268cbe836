"""PROGRAM + COPIES -> PROGRAM + COPIES: in which order MindSpore launches what the end of a forward pass sets free.

Gradients of the loss hang there, kernels of the loss that read the forward pass alone (``Cast``, ``Exp`` and ``Sub`` of
the softmax), and copies back whose prefetch reaches so far. MindSpore's queue takes the one first that stands farthest
from the end of the step. It builds the order twice. From the first, without copies that wait, it takes the two kernels
between which a prefetch puts a copy: in the second, the copy waits for the one, and the other waits for the copy, while
what waits for nothing goes ahead. A copy whose prefetch reaches back before the start of the step is tied to neither
(InsertPreFetchDepend and ExecOrderBuilder of MindSpore, and what its graphs of 2.9.0 show).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.trace.columns import Flags, Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.launch_order import Region, order
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.slots import BEFORE_GRADIENTS, GRADIENT_ONLY, TURN
from swapconf.whatif.streams import in_order
from swapconf.whatif.swap import Slack, Windows, freed


def opened(
    baseline: Baseline,
    program: StrategyProgram,
    windows: Windows,
    alone: Mapping[int, Ints],
    slack: Slack | None = None,
) -> tuple[StrategyProgram, Windows]:
    """``alone``: see `gradient_only`. The same program, where no copy reaches so far."""
    begin = baseline.returnable[windows.face]
    places: dict[int, int] = {}
    returned = windows.returned.copy()
    untied = _untied(baseline, program, windows)
    for start, late in alone.items():
        last = int(program.where[late].max())
        copies = np.flatnonzero((begin == start) & ~windows.unread & (windows.returned <= last)).tolist()
        if copies:
            kernels = [kernel for kernel in range(start, last // TICKS + 1) if program.where[kernel] >= start * TICKS]
            opening = _Opening(baseline, program, windows, untied, sorted({*kernels, *late.tolist()}))
            movable = {*late.tolist(), *(kernel for kernel in kernels if baseline.below[kernel] >= 0)}
            for item, place in _placed(program, opening.sequence(copies), movable, last // TICKS):
                if item >= 0:
                    places[item] = place
                else:
                    returned[~item] = max(place, int(windows.copied[~item]) + 1)
    if not places:
        return program, windows
    program = in_order(baseline, program.moved(places))
    return program, freed(baseline, program, replace(windows, returned=returned), slack)


def _untied(baseline: Baseline, program: StrategyProgram, windows: Windows) -> Flags:
    """[windows] the prefetch reaches back before the start of the step, where copies count."""
    kernels = np.sort(np.concatenate([program.where, program.inserted]))
    copies = np.sort(np.concatenate([windows.copied, windows.returned[~windows.unread]]))
    begin = baseline.step_starts[np.searchsorted(baseline.step_starts, windows.face, side="right") - 1] * TICKS
    counted = sum(
        np.searchsorted(events, windows.used) - np.searchsorted(events, begin) for events in (kernels, copies)
    )
    return np.asarray(windows.prefetch + 1 > counted)


def _placed(
    program: StrategyProgram, sequence: Sequence[int], movable: Collection[int], last: int
) -> Iterable[tuple[int, int]]:
    """(item, position): what is movable, and copies, in front of the next kernel that is not; or behind the last."""
    waiting: list[int] = []
    for item in sequence:
        if item < 0 or item in movable:
            waiting.append(item)
            continue
        first = int(program.where[item]) - BEFORE_GRADIENTS
        yield from ((entry, first + TURN * turn) for turn, entry in enumerate(waiting))
        waiting = []
    yield from ((entry, last * TICKS + GRADIENT_ONLY + TURN * turn) for turn, entry in enumerate(waiting))


@dataclass(frozen=True, slots=True)
class _Opening:
    """``kernels``: ascending. Items are kernels, and copies as ``~window``."""

    baseline: Baseline
    program: StrategyProgram
    windows: Windows
    untied: Flags
    kernels: list[int]

    def sequence(self, copies: list[int]) -> list[int]:
        """All items in the order in which they are launched."""
        inside = np.isin(self.program.reader, self.kernels) & (self.windows.uses >= 0)
        read: dict[int, set[int]] = {}
        for reader, copy in zip(self.program.reader[inside].tolist(), self.windows.uses[inside].tolist(), strict=True):
            read.setdefault(reader, set()).add(copy)
        first = sorted(self.kernels, key=lambda kernel: int(self.program.where[kernel]))
        inner = sorted({copy for of_reader in read.values() for copy in of_reader} & set(copies))
        if inner:  # what reads a copy waits for it in the first order, too
            first = [item for item in self._launch(first, read, inner, {}) if item >= 0]
        return self._launch(first, read, copies, self._ties(first, copies))

    def _ties(self, first: Sequence[int], copies: Iterable[int]) -> dict[int, int]:
        """By copy which of the kernels, by their first order, waits for it."""
        at = np.sort(self.program.where[list(first)])
        return {copy: int(np.searchsorted(at, self.windows.returned[copy])) for copy in copies if not self.untied[copy]}

    def _launch(
        self, first: Sequence[int], read: Mapping[int, set[int]], copies: Sequence[int], ties: Mapping[int, int]
    ) -> list[int]:
        depth = self._depths(first, copies, ties)
        # of those as far as one another copies come first
        turn_of = {item: turn for turn, item in enumerate([*(~copy for copy in self._by_place(copies)), *first])}
        items = sorted(turn_of, key=lambda item: (-depth[item], turn_of[item]))
        number = {item: index for index, item in enumerate(items)}
        ahead = {~copy: first[turn - 1] for copy, turn in ties.items() if turn}
        waits = self._needs(first, read, ties) | {item: [kernel] for item, kernel in ahead.items()}
        readers, stream, gates = self.baseline.num_readers, self.baseline.kernels.stream, set(ahead.values())
        region = Region(
            needs=[[number[source] for source in waits.get(item, ()) if source in number] for item in items],
            late=frozenset(),
            single=[item >= 0 and bool(readers[item] == 1) and item not in gates for item in items],
            talks=[item >= 0 and bool(stream[item] != 0) for item in items],
            depth=[depth[item] for item in items],
        )
        return [items[index] for index in order(region)]

    def _depths(self, first: Iterable[int], copies: Iterable[int], ties: Mapping[int, int]) -> dict[int, int]:
        """A copy is a kernel itself, and what ties it stands between it and the start."""
        depth_of = {~copy: int(self.windows.far[copy]) + 1 + (copy in ties) for copy in copies}
        return depth_of | {kernel: int(self.baseline.distance[kernel]) for kernel in first}

    def _needs(
        self, first: Sequence[int], read: Mapping[int, set[int]], ties: Mapping[int, int]
    ) -> dict[int, list[int]]:
        """What each kernel waits for: what it reads, and the copies that are tied to it."""
        behind = {kernel: set(read.get(kernel, ())) for kernel in first}
        for copy, turn in ties.items():
            if turn < len(first):
                behind[first[turn]].add(copy)
        return {kernel: [*self._sources(kernel), *(~copy for copy in sorted(behind[kernel]))] for kernel in first}

    def _by_place(self, copies: Iterable[int]) -> list[int]:
        return sorted(copies, key=lambda copy: int(self.windows.returned[copy]))

    def _sources(self, kernel: int) -> list[int]:
        """The kernels whose outputs it reads."""
        return sorted({int(self.baseline.reads.via[row]) for row in self.baseline.rows_of(kernel)})
