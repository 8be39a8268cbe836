"""PROGRAM -> PROGRAM: what all layers share runs again for each layer in which it is recomputed.

MindSpore merges equal kernels of the forward pass, such as the tables of the rotary embedding, and names what is left
after the first layer. The primitives are flagged in every layer, though, and what runs again is not merged: each layer
that is recomputed makes its own tables at the start of its part, and what they are made of is kept for it (measured
with MindSpore 2.9.0: ``Muls``, ``Cos`` and ``Sin`` of Qwen3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import StrategyProgram


def remade(
    baseline: Baseline, program: StrategyProgram, wanted: Mapping[int, Mapping[int, Mapping[str, bool]]]
) -> StrategyProgram:
    """``wanted``: by number of a pass, the shared kernels that are recomputed there, and for which of the cells that
    read them."""
    extra = _Extra(baseline, program)
    for number, kernels in wanted.items():
        extra.run(number, kernels)
    return extra.program()


class _Extra:
    def __init__(self, baseline: Baseline, program: StrategyProgram) -> None:
        self._baseline, self._program = baseline, program
        late = np.flatnonzero(program.again | baseline.kernels.backward[program.reader])
        passes = baseline.served[program.reader[late]]
        self._late, self._pass = late[np.argsort(passes, kind="stable")], np.sort(passes)
        self._copied_in = baseline.kernels.passing[program.copies]
        self._block, self._site = program.block.copy(), program.site.copy()
        self._rows = list[tuple[int, int]]()  # (block, position)
        self._origin, self._born = list[int](), list[int]()
        self._copies, self._inserted = list[int](), list[int]()

    def run(self, number: int, wanted: Mapping[int, Mapping[str, bool]]) -> None:
        baseline, program = self._baseline, self._program
        low, high = np.searchsorted(self._pass, [number, number + 1])
        mine = self._late[low:high]
        here = program.inserted[self._copied_in == number]
        here = here[here >= (baseline.returnable[number] + 1) * TICKS]  # not what is `ungated`
        added: list[tuple[int, int]] = []
        for turn, kernel in enumerate(sorted(wanted, reverse=True)):  # readers before what they read
            made = baseline.made.get(kernel, [])
            inside = mine
            if not all(wanted[kernel].values()):
                place = baseline.place_among(tuple(wanted[kernel]))[program.reader[mine]]
                inside = mine[np.array(list(wanted[kernel].values()))[place]]
            uses = {block: inside[self._block[inside] == block] for block in made}
            again = [(index, block) for index, (block, _) in enumerate(added) if block in made]
            positions = [int(program.position[rows].min()) for rows in uses.values() if len(rows)]
            positions += [added[index][1] for index, _ in again]
            if not positions:
                continue
            at = min([*positions, *here.tolist()]) - 1 - turn
            for block in made:
                new = len(baseline.maker) + len(program.origin) + len(self._origin)
                self._block[uses[block]], self._site[uses[block]] = new, -1
                for index, other in again:
                    added[index] = (new, added[index][1]) if other == block else added[index]
                self._origin.append(block)
                self._born.append(at)
            added += [(int(baseline.reads.block[row]), at) for row in baseline.rows_of(kernel)]
            self._copies.append(kernel)
            self._inserted.append(at)
        self._rows += added

    def program(self) -> StrategyProgram:
        program, rows = self._program, np.array(self._rows, dtype=np.int64).reshape(-1, 2)
        if not self._copies:
            return program
        nothing, places = np.full(len(rows), -1, dtype=np.int64), rows[:, 1]
        return replace(
            program,
            block=np.concatenate([self._block, rows[:, 0]]),
            position=np.concatenate([program.position, places]),
            until=np.concatenate([program.until, places]),
            face=np.concatenate([program.face, nothing]),
            site=np.concatenate([self._site, nothing]),
            origin=_longer(program.origin, self._origin),
            reader=np.concatenate([program.reader, nothing]),
            again=np.concatenate([program.again, np.ones(len(rows), dtype=np.bool_)]),
            born=_longer(program.born, self._born),
            copies=_longer(program.copies, self._copies),
            inserted=_longer(program.inserted, self._inserted),
        )


def _longer(column: Ints, more: Sequence[int]) -> Ints:
    return np.concatenate([column, np.array(more, dtype=np.int64)])
