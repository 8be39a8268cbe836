"""LAID-OUT RUN: a run without swap and recompute, laid out for what-if.

Kernels are counted in launch order, without the kernels that only order streams. A *node* is a forward kernel inside
a layer; a view is one, too. A *read* is one kernel using one block; its *face* is the node through which it sees the
block, the kernel that made it or a view of it. A *pass* is one layer computed for one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swapconf.models.cells import CORE_ATTENTION, EXPERTS, PREDICTED_LAYER
from swapconf.trace.blocks import ranges
from swapconf.trace.columns import Flags, Ints, Kernels, LayerRows, Reads
from swapconf.trace.lifetimes import Lifetimes
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.trace.work import COLLECTIVES
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.depth import hops

GRADIENT_VIEW = "TransposeExtView"  # of a weight of experts, measured with MindSpore 2.9.0
SPLITS = frozenset({"Split", "SplitWithSize"})
ADD_AND_NORM = "AddRmsNorm"  # what MindSpore makes of an Add that an RmsNorm reads
DISPATCH = "AlltoAllV"  # of tokens to experts and back, in the code of the model (measured with MindSpore 2.9.0)
_TAKING = f".{CORE_ATTENTION}"
IN_PLACE = "Inplace"  # how primitives begin that write what they read
SUM = 2  # which of its outputs the Add would have


@dataclass(frozen=True, kw_only=True)
class LaidOut:
    """``blocks``: all device blocks of the trace. ``maker``: [blocks] the kernel that made each, -1 for none.
    ``host_bytes``: [blocks] what a copy of each takes on the host. ``steps``: how often the training step is run.
    ``misnamed``: kernels that MindSpore names after another layer than the one that they stand in, or after none.
    ``weights``: kernels that read one weight and nothing else, with the row of its block. ``states``: kernels that read
    what the optimizer keeps of a weight, with the number of that weight in the optimizer's order. ``turned``: views
    that show dimensions in another order, as a Transpose of one sample or one head is launched. ``in_state``: kernels
    whose output MindSpore's graph hands on in a state of the parameters; None where the trace has no graph.
    ``of_function``: kernels of `LaunchGraph.of_function`."""

    blocks: Lifetimes
    maker: Ints
    host_bytes: Ints
    kernels: Kernels
    layers: LayerRows
    reads: Reads
    steps: int
    misnamed: frozenset[int] = frozenset()
    weights: Mapping[int, int] = field(default_factory=dict[int, int])
    states: Mapping[int, int] = field(default_factory=dict[int, int])
    turned: frozenset[int] = frozenset()
    in_state: frozenset[int] | None = None
    of_function: frozenset[int] = frozenset()

    @cached_property
    def step_starts(self) -> Ints:
        """The first kernel of each training step, and the number of kernels."""
        names = self.kernels.name
        return np.array([*(index for index, name in enumerate(names) if name == names[0]), len(names)])

    def layer_of(self, kernel: int) -> str:
        """What the network calls the layer of a kernel, "" outside of them."""
        return self.layers.name(int(self.kernels.layer[kernel]))

    @cached_property
    def below(self) -> Ints:
        """[kernels] what a view shows: the face that it reads; -1 for what is no view."""
        shown = np.full(len(self.kernels), -1, dtype=np.int64)
        rows = np.flatnonzero(self.views[self.reads.kernel])
        shown[self.reads.kernel[rows]] = self.reads.face[rows]
        return shown

    @cached_property
    def _by_kernel(self) -> tuple[Ints, Ints]:
        rows = np.argsort(self.reads.kernel, kind="stable")
        return rows, np.searchsorted(self.reads.kernel[rows], np.arange(len(self.kernels) + 1))

    def rows_of(self, kernel: int) -> list[int]:
        """Rows of the reads of one kernel."""
        rows, starts = self._by_kernel
        of_kernel: list[int] = rows[starts[kernel] : starts[kernel + 1]].tolist()
        return of_kernel

    def all_rows_of(self, kernels: Ints) -> Ints:
        """Rows of the reads of these kernels, one after the other."""
        rows, starts = self._by_kernel
        return np.asarray(rows[ranges(starts[kernels], starts[kernels + 1] - starts[kernels])])

    def readers_of(self, block: int) -> list[int]:
        """The kernels that read a block."""
        low, high = np.searchsorted(self.reads.block, [block, block + 1])
        readers: list[int] = self.reads.kernel[low:high].tolist()
        return readers

    def followers(self, kernel: int) -> list[int]:
        """The kernels that read what a kernel makes."""
        return [reader for block in self.made.get(kernel, ()) for reader in self.readers_of(block)]

    @cached_property
    def num_readers(self) -> Ints:
        """[kernels] how many kernels read what each makes, or shows as a view. Of what is written in place a view is no
        only reader: MindSpore ties others to it."""
        reads = self.reads
        in_place = np.char.startswith(self.kernels.primitives, IN_PLACE)
        seen = np.where((reads.via >= 0) & in_place[reads.via], reads.face, reads.via)
        return np.bincount(seen[seen >= 0], minlength=len(self.kernels))

    @cached_property
    def depth(self) -> Ints:
        """[kernels] how many readers follow one another from each to the nearest kernel that nothing reads."""
        return hops(len(self.kernels), self.reads.kernel, self.reads.via)

    @cached_property
    def distance(self) -> Ints:
        """[kernels] `depth`, where to take one of several outputs is a step, too."""
        steps = np.where(self.num_made > 1, 2, 1)
        return hops(len(self.kernels), self.reads.kernel, self.reads.via, steps)

    @cached_property
    def made(self) -> dict[int, list[int]]:
        """Kernel -> the rows of the blocks that it makes."""
        blocks_of: dict[int, list[int]] = {}
        for row, kernel in enumerate(self.maker.tolist()):
            blocks_of.setdefault(kernel, []).append(row)
        return blocks_of

    @cached_property
    def num_made(self) -> Ints:
        """[kernels] how many blocks each makes."""
        return np.bincount(self.maker[self.maker >= 0], minlength=len(self.kernels))

    @cached_property
    def codes(self) -> Ints:
        """[kernels] equal numbers for equal primitives in equal cells; gradients are told by their primitive alone,
        because MindSpore names many of them after another layer."""
        numbers: dict[tuple[str, str], int] = {}
        columns = zip(self.kernels.cell, self.kernels.primitive, self.kernels.backward.tolist(), strict=True)
        return np.array(
            [
                numbers.setdefault(("" if backward else cell, primitive), len(numbers))
                for cell, primitive, backward in columns
            ],
            dtype=np.int64,
        )

    def place_among(self, cells: tuple[str, ...]) -> Ints:
        """[kernels] which of some cells each stands in, or serves by its name; what is in none counts for the first.
        The layer in one for multi-token prediction has the same cells a level deeper."""
        if cells not in self._places:
            deeper = {f"{PREDICTED_LAYER}.{cell}": turn for turn, cell in enumerate(cells)}
            place = {cell: turn for turn, cell in enumerate(cells)} | deeper
            self._places[cells] = np.array([place.get(cell, 0) for cell in self.kernels.cell])
        return self._places[cells]

    @cached_property
    def _places(self) -> dict[tuple[str, ...], Ints]:
        return {}

    @cached_property
    def views(self) -> Flags:
        """[kernels] shows what it reads."""
        return np.isin(self.kernels.primitives, list(VIEWS))

    @cached_property
    def norms(self) -> Flags:
        """[kernels] an Add of one layer and the norm of the next in one."""
        return np.asarray(self.kernels.primitives == ADD_AND_NORM)

    @cached_property
    def sums(self) -> Ints:
        """The rows of the sums that fused Adds and norms make."""
        rows = (self.made.get(node, [])[SUM : SUM + 1] for node in np.flatnonzero(self.norms).tolist())
        return np.array([row for of_node in rows for row in of_node], dtype=np.int64)

    @cached_property
    def is_piped(self) -> bool:
        """Other stages of a pipeline send and receive."""
        return bool(np.isin(self.kernels.primitives, list(POINT_TO_POINT)).any())

    @cached_property
    def is_sent_gradients(self) -> bool:
        """By a later stage, or a later piece of an interleaved pipeline."""
        return bool(self.kernels.backward[self.kernels.primitives == "Receive"].any())

    @cached_property
    def splits(self) -> Flags:
        """[kernels] makes pieces of a tensor."""
        return np.isin(self.kernels.primitives, list(SPLITS))

    @cached_property
    def layer_casts(self) -> Flags:
        """[kernels] casts of a layer itself, in none of its cells."""
        is_own = np.array([cell == "" for cell in self.kernels.cell], dtype=np.bool_)
        return np.asarray((self.kernels.primitives == "Cast") & is_own)

    @cached_property
    def takers(self) -> Flags:
        """[kernels] of the cell that is handed query, key and value."""
        return np.array([cell.endswith(_TAKING) for cell in self.kernels.cell], dtype=np.bool_)

    @cached_property
    def concatenated(self) -> Flags:
        """[kernels] joins tensors."""
        return np.asarray(self.kernels.primitives == "Concat")

    @cached_property
    def with_experts(self) -> Flags:
        """[kernels] of a layer with experts."""
        return np.isin(self.kernels.layer, [layer for layer, _ in self._around_experts])

    @property
    def _cells(self) -> Iterator[tuple[int, str]]:
        """[kernels] the number of the layer, and the cell."""
        return zip(self.kernels.layer.tolist(), self.kernels.cell, strict=True)

    @cached_property
    def _around_experts(self) -> frozenset[tuple[int, str]]:
        """The layers and cells that have experts."""
        parted = ((layer, *cell.rpartition(".")) for layer, cell in self._cells)
        return frozenset((layer, around) for layer, around, _, name in parted if name == EXPERTS)

    @cached_property
    def lost_splits(self) -> Flags:
        """[kernels] splits that MindSpore has put in anew, as those of latent attention: their name tells no cell, so
        that nothing asks for them to run again without lazy inline (measured with MindSpore 2.9.0)."""
        return np.asarray(self.splits & self.kernels.is_lost)

    @cached_property
    def edges(self) -> tuple[Ints, Ints]:
        """(reader, face): nodes of one pass."""
        passing, reads = self.kernels.passing, self.reads
        inside = (passing[reads.face] >= 0) & (passing[reads.face] == passing[reads.kernel])
        return reads.kernel[inside], reads.face[inside]

    @cached_property
    def edge_blocks(self) -> Ints:
        """The block that is read along each of the ``edges``."""
        passing, reads = self.kernels.passing, self.reads
        return np.asarray(reads.block[(passing[reads.face] >= 0) & (passing[reads.face] == passing[reads.kernel])])

    @cached_property
    def rootless(self) -> Flags:
        """[kernels] nodes that read nothing that a kernel made, such as the casts of weights."""
        rootless = self.kernels.passing >= 0
        rootless[self.reads.kernel] = False
        return rootless

    @cached_property
    def of_weights(self) -> Flags:
        """[kernels] nodes that cast weights, or gather them from their shards."""
        of_weights = np.zeros(len(self.kernels), dtype=np.bool_)
        kinds = np.isin(self.kernels.primitives, ["Cast", *COLLECTIVES])
        for node in np.flatnonzero((self.kernels.passing >= 0) & kinds).tolist():
            sources = self.reads.face[self.rows_of(node)]
            of_weights[node] = bool((sources >= 0).all() and of_weights[sources].all())
        return of_weights

    @cached_property
    def twin(self) -> Ints:
        """[kernels] the kernel of the backward pass by which the model computes a node again, -1 for none."""
        twin = np.full(len(self.kernels), -1, dtype=np.int64)
        for nodes, again in self._made_again:
            twin[nodes] = again[0]
        return twin

    @cached_property
    def further_twins(self) -> dict[int, tuple[int, ...]]:
        """By twin other kernels that compute the same again, as for each of the products that read a view."""
        return {again[0]: tuple(again[1:]) for _, again in self._made_again if len(again) > 1}

    @cached_property
    def _made_again(self) -> list[tuple[list[int], list[int]]]:
        """(nodes, kernels of the backward pass that compute them again)."""
        kernels, reads = self.kernels, self.reads
        readers: dict[tuple[int, str], list[int]] = {}
        for block, kernel in zip(reads.block.tolist(), reads.kernel.tolist(), strict=True):
            readers.setdefault((block, kernels.primitive[kernel]), []).append(kernel)
        pairs = list[tuple[list[int], list[int]]]()
        for group in readers.values():
            again = [
                kernel
                for kernel in group
                if kernels.backward[kernel]
                and kernels.layer[kernel] >= 0
                and not kernels.name[kernel].startswith("Gradients")
            ]
            if again:
                nodes = [kernel for kernel in group if kernels.passing[kernel] >= 0]
                here = [kernel for kernel in nodes if kernels.cell[kernel] == kernels.cell[again[0]]]
                pairs.append((here or nodes, again))
        return pairs

    @cached_property
    def twin_block(self) -> Ints:
        """[blocks] the block that the twin of its maker makes, -1 for none."""
        twin_block = np.full(len(self.maker), -1, dtype=np.int64)
        for node in np.flatnonzero(self.twin >= 0).tolist():
            rows, others = self.made.get(node, []), self.made.get(int(self.twin[node]), [])
            twin_block[rows] = others if len(rows) == len(others) else -1
        return twin_block
