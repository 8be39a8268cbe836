"""PROGRAM -> PROGRAM: what all layers share runs again for each layer in which it is recomputed.

MindSpore merges equal kernels of the forward pass, such as the tables of the rotary embedding, and names what is left
after the first layer. The primitives are flagged in every layer, though, and what runs again is not merged: each layer
that is recomputed makes its own tables at the start of its part, and what they are made of is kept for it, or comes
back where it is swapped (measured with MindSpore 2.9.0: ``Muls``, ``Cos`` and ``Sin`` of Qwen3).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import TICKS
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.recompute import Additions, BlockUse, StrategyProgram


def remade(
    baseline: Baseline, program: StrategyProgram, wanted: Mapping[int, Mapping[int, Mapping[str, bool]]], of_moved: Ints
) -> StrategyProgram:
    """``wanted``: by number of a pass, the shared kernels that are recomputed there, and for which of the cells that
    read them. ``of_moved``: [kernels] the site that moves what each makes."""
    extra = _Extra(baseline, program, of_moved)
    for number, kernels in wanted.items():
        extra.run(number, kernels)
    return extra.program()


class _Extra:
    def __init__(self, baseline: Baseline, program: StrategyProgram, of_moved: Ints) -> None:
        self._baseline, self._program, self._of_moved = baseline, program, of_moved
        late = np.flatnonzero(program.again | baseline.kernels.backward[program.reader])
        passes = baseline.served[program.reader[late]]
        self._late, self._pass = late[np.argsort(passes, kind="stable")], np.sort(passes)
        self._copied_in = baseline.kernels.passing[program.copies]
        self._block, self._site = program.block.copy(), program.site.copy()
        self._more = Additions()

    def run(self, number: int, wanted: Mapping[int, Mapping[str, bool]]) -> None:
        baseline, program = self._baseline, self._program
        low, high = np.searchsorted(self._pass, [number, number + 1])
        of_pass = self._late[low:high]
        read = self._makers(self._block[of_pass].tolist(), wanted)
        if not read:
            return
        here = program.inserted[self._copied_in == number]
        here = here[here >= (baseline.returnable[number] + 1) * TICKS]  # not what is `ungated`
        added: list[BlockUse] = []
        turns = {kernel: turn for turn, kernel in enumerate(sorted(wanted, reverse=True))}
        while read:
            kernel = max(read)  # readers before what they read
            read.remove(kernel)
            made = baseline.made.get(kernel, [])
            inside = of_pass
            if not all(wanted[kernel].values()):
                place = baseline.place_among(tuple(wanted[kernel]))[program.reader[of_pass]]
                inside = of_pass[np.array(list(wanted[kernel].values()))[place]]
            uses = {block: inside[self._block[inside] == block] for block in made}
            again = [(index, use.block) for index, use in enumerate(added) if use.block in made]
            positions = [int(program.position[rows].min()) for rows in uses.values() if len(rows)]
            positions += [added[index].position for index, _ in again]
            if not positions:
                continue
            at = min([*positions, *here.tolist()]) - 1 - turns[kernel]
            first = len(baseline.maker) + len(program.origin) + len(self._more.blocks)
            for new, block in enumerate(made, first):
                self._block[uses[block]], self._site[uses[block]] = new, -1
                for index, old_block in again:
                    added[index] = BlockUse(new, added[index].position) if old_block == block else added[index]
            reads = [self._read(row, at) for row in baseline.rows_of(kernel)]
            read |= self._makers([use.block for use in reads], wanted)
            added += reads
            self._more.launch(kernel, made, at)
        self._more.uses += added

    def _makers(self, blocks: Iterable[int], wanted: Container[int]) -> set[int]:
        """Those of blocks that are wanted; what strategies make has none in the baseline."""
        maker = self._baseline.maker
        makers = (int(maker[block]) for block in set(blocks) if 0 <= block < len(maker))
        return {kernel for kernel in makers if kernel in wanted}

    def _read(self, row: int, at: int) -> BlockUse:
        """Of what moves, with who reads it: a table that is swapped comes back for those that are made of it."""
        reads = self._baseline.reads
        block, face = int(reads.block[row]), int(reads.face[row])
        site = int(self._of_moved[face]) if face >= 0 else -1
        return BlockUse(block, at) if site < 0 else BlockUse(block, at, face, site, int(reads.kernel[row]))

    def program(self) -> StrategyProgram:
        if not self._more.kernels:
            return self._program
        return self._program.with_more(self._block, self._site, self._more, again=True)
