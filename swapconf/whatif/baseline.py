"""BASELINE: a run without swap and recompute, laid out for what-if.

Kernels are counted in launch order, without the kernels that only order streams. A *node* is a forward kernel inside
a layer; a view is one, too. A *read* is one kernel using one block; its *face* is the node through which it sees the
block, the kernel that made it or a view of it. A *pass* is one layer computed for one micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from swapconf.trace.columns import Flags, Ints, Kernels, LayerRows, Reads
from swapconf.trace.lifetimes import Lifetimes
from swapconf.trace.trace import POINT_TO_POINT
from swapconf.upstream.primitives import VIEWS
from swapconf.whatif.depth import hops

GRADIENT_VIEW = "TransposeExtView"  # of a weight of experts, measured with MindSpore 2.9.0
SPLITS = frozenset({"Split", "SplitWithSize"})
ADD_AND_NORM = "AddRmsNorm"  # what MindSpore makes of an Add that an RmsNorm reads
ROOM = 8  # kernels between a copy of a weight and its reader, from which on it does not stand right before it
SUM = 2  # which of its outputs the Add would have


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """``blocks``: all device blocks of the trace. ``maker``: [blocks] the kernel that made each, -1 for none.
    ``host_bytes``: [blocks] what a copy of each takes on the host. ``steps``: how often the training step is run.
    ``misnamed``: kernels that MindSpore names after another layer than the one that they stand in, or after none.
    ``weights``: kernels that read one weight and nothing else, with the row of its block."""

    blocks: Lifetimes
    maker: Ints
    host_bytes: Ints
    kernels: Kernels
    layers: LayerRows
    reads: Reads
    steps: int
    misnamed: frozenset[int] = frozenset()
    weights: Mapping[int, int] = field(default_factory=dict[int, int])

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
        found = np.full(len(self.kernels), -1, dtype=np.int64)
        is_view = self.views
        rows = np.flatnonzero(is_view[self.reads.kernel])
        found[self.reads.kernel[rows]] = self.reads.face[rows]
        return found

    @cached_property
    def _by_kernel(self) -> tuple[Ints, Ints]:
        rows = np.argsort(self.reads.kernel, kind="stable")
        return rows, np.searchsorted(self.reads.kernel[rows], np.arange(len(self.kernels) + 1))

    def rows_of(self, kernel: int) -> list[int]:
        """Rows of the reads of one kernel."""
        rows, starts = self._by_kernel
        found: list[int] = rows[starts[kernel] : starts[kernel + 1]].tolist()
        return found

    def readers_of(self, block: int) -> list[int]:
        """The kernels that read a block."""
        low, high = np.searchsorted(self.reads.block, [block, block + 1])
        found: list[int] = self.reads.kernel[low:high].tolist()
        return found

    @cached_property
    def num_readers(self) -> Ints:
        """[kernels] how many kernels read what each makes, or shows as a view. Of what is written in place a view is no
        only reader: MindSpore ties others to it."""
        reads = self.reads
        in_place = np.char.startswith(self.kernels.primitives, "Inplace")
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
        found: dict[int, list[int]] = {}
        for row, kernel in enumerate(self.maker.tolist()):
            found.setdefault(kernel, []).append(row)
        return found

    @cached_property
    def num_made(self) -> Ints:
        """[kernels] how many blocks each makes."""
        return np.bincount(self.maker[self.maker >= 0], minlength=len(self.kernels))

    @cached_property
    def codes(self) -> Ints:
        """[kernels] equal numbers for equal primitives in equal cells; gradients are told by their primitive alone,
        because MindSpore names many of them after another layer."""
        known: dict[tuple[str, str], int] = {}
        columns = zip(self.kernels.cell, self.kernels.primitive, self.kernels.backward.tolist(), strict=True)
        return np.array(
            [
                known.setdefault(("" if backward else cell, primitive), len(known))
                for cell, primitive, backward in columns
            ],
            dtype=np.int64,
        )

    @cached_property
    def views(self) -> Flags:
        """[kernels] shows what it reads."""
        return np.isin(self.kernels.primitives, list(VIEWS))

    @cached_property
    def norms(self) -> Flags:
        """[kernels] an Add of one layer and the norm of the next in one."""
        return np.asarray(self.kernels.primitives == ADD_AND_NORM)

    @cached_property
    def is_piped(self) -> bool:
        """Other stages of a pipeline send and receive."""
        return bool(np.isin(self.kernels.primitives, list(POINT_TO_POINT)).any())

    @cached_property
    def splits(self) -> Flags:
        """[kernels] makes pieces of a tensor."""
        return np.isin(self.kernels.primitives, list(SPLITS))

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
        found = self.kernels.passing >= 0
        found[self.reads.kernel] = False
        return found

    @cached_property
    def batches(self) -> tuple[tuple[int, ...], ...]:
        """The passes of each micro-batch, by number, as its layers follow one another; a micro-batch begins where the
        layers do, with an interleaved pipeline in each of its pieces."""
        layer, is_extra = self.kernels.layer, self.layers.is_extra
        found: list[list[int]] = []
        above = -1
        for number, node in sorted(self.first_nodes.items(), key=lambda item: item[1]):
            here = int(layer[node])
            if not found or here <= above or (above + 1 < here and not is_extra[here]):
                found.append([])
            found[-1].append(number)
            above = here
        return tuple(map(tuple, found))

    @cached_property
    def first_nodes(self) -> dict[int, int]:
        """By pass the first node that is not rootless."""
        passing = self.kernels.passing
        busy = np.flatnonzero((passing >= 0) & ~self.rootless)
        return {int(number): int(node) for number, node in zip(passing[busy][::-1], busy[::-1], strict=True)}

    @cached_property
    def upfront(self) -> Ints:
        """[kernels] for rootless nodes: the kernel before which each runs if it moves, -1 for those that stay in place
        and for other nodes. Other than in the first micro-batch of a step, that is the first kernel of theirs; with an
        interleaved pipeline each of its pieces begins anew (see ``batches``). But see `anchors`."""
        passing, first = self.kernels.passing, self.first_nodes
        begin = np.full(len(passing), -1, dtype=np.int64)
        starts = [first[batch[0]] for batch in self.batches]
        step = np.searchsorted(self.step_starts, starts, side="right")
        for index, batch in enumerate(self.batches):
            if index and step[index] == step[index - 1]:
                begin[list(batch)] = starts[index]
        found = np.where(self.rootless, begin[passing], -1)
        for node, place in self.anchors.items():
            found[node] = place
        return found

    @cached_property
    def anchors(self) -> dict[int, int]:
        """By cast of a weight the place behind the copy of another one (``TensorMove``, for a norm) that is read next,
        where that stands with room before its reader; but not before the first kernel of the micro-batch. What is read
        behind all of them stands with the last."""
        primitive, reader = self.kernels.primitives, self._first_reader
        copies = np.flatnonzero((primitive == "TensorMove") & (reader > 0) & ~self.kernels.backward[reader])
        starts = [*(self.first_nodes[batch[0]] for batch in self.batches), len(self.kernels)]
        of_batch = np.searchsorted(starts, reader[copies], side="right") - 1
        casts = np.flatnonzero(self.rootless & (primitive == "Cast") & (reader > 0))
        found = dict[int, int]()
        for index, batch in enumerate(self.batches):
            here = copies[of_batch == index]
            here = here[np.argsort(reader[here], kind="stable")]
            for node in casts[np.isin(self.kernels.passing[casts], batch)].tolist() if len(here) else ():
                copy = int(here[min(int(np.searchsorted(reader[here], reader[node])), len(here) - 1)])
                place = max(copy + 1, starts[index])
                if reader[copy] - copy > ROOM and place < node:
                    found[node] = place
        return found

    @cached_property
    def _first_reader(self) -> Ints:
        """[kernels] the first kernel that reads what each makes, 0 for none."""
        found = np.full(len(self.kernels), len(self.kernels), dtype=np.int64)
        made = self.maker[self.reads.block]
        np.minimum.at(found, made[made >= 0], self.reads.kernel[made >= 0])
        return np.where(found < len(found), found, 0)

    @cached_property
    def _gradients_of_forward(self) -> tuple[Ints, Ints]:
        """(kernel, maker): kernels of the backward pass that read what the forward pass made for itself, too; the scale
        of the loss is ready before that has ended."""
        backward, maker, reader = self.kernels.backward, self.maker[self.reads.block], self.reads.kernel
        forward = np.zeros(len(backward), dtype=np.bool_)
        forward[maker[~backward[reader]]] = True
        found = backward[reader] & ~backward[maker] & forward[maker]
        return reader[found], maker[found]

    @cached_property
    def returnable(self) -> Ints:
        """[kernels] for nodes: where the backward pass of their micro-batch begins; 0 for the others. No copy back
        starts earlier, however large its prefetch (measured with MindSpore 2.9.0: accumulated steps, and pipelines,
        interleaved ones, too)."""
        passing, (gradient, maker) = self._summed_in, self._gradients_of_forward
        batch_of_pass = {number: index for index, batch in enumerate(self.batches) for number in batch}
        batch = np.array([batch_of_pass.get(number, -1) for number in passing.tolist()], dtype=np.int64)
        primitive = self.kernels.primitives
        # some casts and sends of a forward pass are launched behind it
        forward = np.flatnonzero((self.kernels.passing >= 0) & ~self.rootless & (primitive != "Send"))
        in_layers = batch[maker] >= 0
        busy = np.sort(np.concatenate([gradient[in_layers], forward]))
        own = np.full(len(self.batches), len(passing), dtype=np.int64)
        np.minimum.at(own, batch[maker][in_layers], gradient[in_layers])
        found = np.zeros(len(self.batches) + 1, dtype=np.int64)  # the last: of nodes in no pass
        for index in np.flatnonzero(own < len(passing)).tolist():
            before = np.searchsorted(busy, own[index])  # no gradient of this micro-batch is among these
            found[index] = self._first_gradient(int(busy[before - 1]) if before else -1, int(own[index]), primitive)
        return found[batch]

    @cached_property
    def _summed_in(self) -> Ints:
        """[kernels] the pass of each; of a norm behind the layers, that of the Add which it has taken in."""
        found = self.kernels.passing.copy()
        for kernel in np.flatnonzero((found < 0) & self.norms).tolist():
            found[kernel] = max(found[self.added(kernel)], default=-1)
        return found

    def added(self, kernel: int) -> list[int]:
        """The nodes that a fused Add and norm adds: not the one that makes its weight."""
        faces = self.reads.face[self.rows_of(kernel)]
        faces = faces[(faces >= 0) & (self.kernels.passing[faces] >= 0) & ~self.rootless[faces]]
        return [int(face) for face in faces]

    @cached_property
    def waits(self) -> Flags:
        """[kernels] needs the gradient that enters the layers from behind: that of the output of the model, or one that
        a stage of a pipeline receives. The gradients of the losses of routers do not; all do where there are none."""
        kernels, reads = self.kernels, self.reads
        if GRADIENT_VIEW not in kernels.primitive:
            return np.ones(len(kernels), dtype=np.bool_)
        primitive = kernels.primitives
        first = int(self.returnable[self.returnable > 0].min(initial=len(kernels)))
        inside = np.zeros(len(kernels), dtype=np.bool_)
        inside[reads.kernel[(reads.face >= 0) & (kernels.passing[reads.face] >= 0)]] = True
        # of the head, and of that of each extra layer
        found: Flags = (primitive == "MatMul") & kernels.backward & ~inside
        found |= (primitive == "Receive") & (np.arange(len(kernels)) >= first)
        for kernel in np.flatnonzero(kernels.backward).tolist():
            found[kernel] |= any(found[self.maker[reads.block[row]]] for row in self.rows_of(kernel))
        return found

    def _first_gradient(self, ahead: int, own: int, primitive: NDArray[np.str_]) -> int:
        """Where a backward pass begins whose first gradient in the layers is ``own``, behind the pass that ends with
        ``ahead``: a stage of a pipeline receives it, and sends on that of the pass before; the last begins with the
        gradient of the loss."""
        received = ahead + 1 + np.flatnonzero(primitive[ahead + 1 : own] == "Receive")
        if len(received):
            return int(received[0]) - bool(received[0] > ahead + 1 and primitive[received[0] - 1] == "Send")
        loss = self._gradients_of_forward[0]
        return int(loss[loss > ahead].min())

    @cached_property
    def twin(self) -> Ints:
        """[kernels] the kernel of the backward pass by which the model computes a node again, -1 for none."""
        kernels, reads = self.kernels, self.reads
        found = np.full(len(kernels), -1, dtype=np.int64)
        readers: dict[tuple[int, str], list[int]] = {}
        for block, kernel in zip(reads.block.tolist(), reads.kernel.tolist(), strict=True):
            readers.setdefault((block, kernels.primitive[kernel]), []).append(kernel)
        for group in readers.values():
            again = [
                kernel
                for kernel in group
                if kernels.backward[kernel]
                and kernels.layer[kernel] >= 0
                and not kernels.name[kernel].startswith("Gradients")
            ]
            if again:
                found[[kernel for kernel in group if kernels.passing[kernel] >= 0]] = again[0]
        return found

    @cached_property
    def twin_block(self) -> Ints:
        """[blocks] the block that the twin of its maker makes, -1 for none."""
        found = np.full(len(self.maker), -1, dtype=np.int64)
        for node in np.flatnonzero(self.twin >= 0).tolist():
            rows, others = self.made.get(node, []), self.made.get(int(self.twin[node]), [])
            found[rows] = others if len(rows) == len(others) else -1
        return found
