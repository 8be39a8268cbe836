"""BASELINE: a laid-out run with its micro-batches, and where their backward passes begin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from swapconf.models.cells import PREDICTED_LAYER
from swapconf.trace.columns import Flags, Ints
from swapconf.upstream.scopes import descends, in_layer
from swapconf.whatif.laid_out import GRADIENT_VIEW, IN_PLACE, LaidOut

ROOM = 8  # kernels between a copy of a weight and its reader, from which on it does not stand right before it


@dataclass(frozen=True, kw_only=True)
class Baseline(LaidOut):
    """What strategies are asked of. ``awaits_send``: kernels in front of which the main stream waits for what was sent,
    as a parameter that they read. ``adds_up_experts``: several cards have the same experts, so that they add up the
    gradients of those. ``joined``: kernels that are launched together with the one in front of them, as operators of a
    fused one. ``unread_literals``: rows of constants of the smallest size that no launch reads; none with fused
    kernels, which do not tell. ``lasting_host_bytes``: what the host holds all the time."""

    awaits_send: frozenset[int] = frozenset()
    joined: frozenset[int] = frozenset()
    adds_up_experts: bool = False
    unread_literals: tuple[int, ...] = ()
    lasting_host_bytes: int = 0

    @cached_property
    def of_other_cells(self) -> Flags:
        """[kernels] what parallelism puts between operators of a layer and names after a cell outside of all layers,
        which is not recomputed (measured with 2.9.0: a slice behind the rotary embedding of TeleChat3's keys)."""
        kernels = self.kernels
        named = np.array(["-" in name and in_layer(name) is None for name in kernels.name], dtype=np.bool_)
        return np.asarray(named & ~kernels.is_lost & (kernels.passing >= 0) & ~kernels.backward)

    @cached_property
    def is_read_again(self) -> Flags:
        """[kernels] a gradient reads what each makes."""
        is_read = np.zeros(len(self.kernels) + 1, dtype=np.bool_)
        is_read[self.maker[self.reads.block[self.kernels.backward[self.reads.kernel]]]] = True
        return is_read[:-1]

    @cached_property
    def ends_launch(self) -> Flags:
        """[kernels] no other one is launched together with it behind it."""
        ends = np.ones(len(self.kernels) + 1, dtype=np.bool_)
        ends[list(self.joined)] = False
        return ends[1:]

    @cached_property
    def launch(self) -> Ints:
        """[kernels] the number of the launch that each is part of."""
        return np.concatenate([[0], np.cumsum(self.ends_launch)[:-1]])

    @cached_property
    def predicting(self) -> Flags:
        """[kernels] of the layer within one for multi-token prediction."""
        return np.array([descends(cell, {PREDICTED_LAYER}) for cell in self.kernels.cell], dtype=np.bool_)

    def read_by(self, readers: Flags) -> Flags:
        """[kernels] nodes that one of these reads in its own pass."""
        reader, face = self.edges
        is_read = np.zeros(len(readers), dtype=np.bool_)
        is_read[face[readers[reader]]] = True
        return is_read

    def sees(self, reader: Ints, face: Ints) -> Flags:
        """Whether each of these kernels reads anything through the face beside it."""
        seen, width = self._seen, len(self.kernels) + 1
        pairs = reader * width + face
        return np.asarray(seen[np.minimum(np.searchsorted(seen, pairs), len(seen) - 1)] == pairs)

    @cached_property
    def orders(self) -> dict[bytes, tuple[Ints, Flags]]:
        """What was found of regions so far, as strategies have many in common; see `regions.positions`."""
        return {}

    @cached_property
    def queues(self) -> dict[tuple[int, bytes], int]:
        """The same of copies to the host; see `swap.swap`."""
        return {}

    @cached_property
    def _seen(self) -> Ints:
        return np.asarray(np.unique(self.reads.kernel * (len(self.kernels) + 1) + self.reads.face))

    @cached_property
    def served(self) -> Ints:
        """[kernels] the pass that each belongs to; a gradient to that of the nearest one that reads a node."""
        kernels, reads = self.kernels, self.reads
        pass_of = kernels.passing.copy()
        direct = kernels.backward[reads.kernel] & (reads.face >= 0) & (kernels.passing[reads.face] >= 0)
        pass_of[reads.kernel[direct]] = kernels.passing[reads.face[direct]]
        placed = np.flatnonzero(kernels.backward & (pass_of >= 0))
        open_ = np.flatnonzero(kernels.backward & (pass_of < 0))
        if len(placed):
            right = np.minimum(np.searchsorted(placed, open_), len(placed) - 1)
            left = np.maximum(right - 1, 0)
            nearest = np.where(
                np.abs(placed[right] - open_) < np.abs(open_ - placed[left]), placed[right], placed[left]
            )
            pass_of[open_] = pass_of[nearest]
        return pass_of

    @cached_property
    def waits_for_state(self) -> Flags:
        """[kernels] ``in_state``; none where that is not known."""
        return np.isin(np.arange(len(self.kernels)), sorted(self.in_state or ()))

    @cached_property
    def is_of_function(self) -> Flags:
        """[kernels] ``of_function``."""
        return np.isin(np.arange(len(self.kernels)), sorted(self.of_function))

    @cached_property
    def batches(self) -> tuple[tuple[int, ...], ...]:
        """The passes of each micro-batch, by number, as its layers follow one another; a micro-batch begins where the
        layers do, with an interleaved pipeline in each of its pieces."""
        layer, is_extra = self.kernels.layer, self.layers.is_extra
        batches: list[list[int]] = []
        above = -1
        for number, node in sorted(self.first_nodes.items(), key=lambda item: item[1]):
            here = int(layer[node])
            if not batches or here <= above or (above + 1 < here and not is_extra[here]):
                batches.append([])
            batches[-1].append(number)
            above = here
        return tuple(map(tuple, batches))

    @property
    def is_accumulated(self) -> bool:
        """A step has several micro-batches, or pieces of an interleaved pipeline."""
        return len(self.batches) > self.steps

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
        before = np.where(self.rootless, begin[passing], -1)
        for node, place in self.anchors.items():
            before[node] = place
        return before

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
        place_of = dict[int, int]()
        for index, batch in enumerate(self.batches):
            here = copies[of_batch == index]
            here = here[np.argsort(reader[here], kind="stable")]
            for node in casts[np.isin(self.kernels.passing[casts], batch)].tolist() if len(here) else ():
                copy = int(here[min(int(np.searchsorted(reader[here], reader[node])), len(here) - 1)])
                place = max(copy + 1, starts[index])
                if reader[copy] - copy > ROOM and place < node:
                    place_of[node] = place
        return place_of

    @cached_property
    def _first_reader(self) -> Ints:
        """[kernels] the first kernel that reads what each makes, 0 for none."""
        first_reader = np.full(len(self.kernels), len(self.kernels), dtype=np.int64)
        maker = self.maker[self.reads.block]
        np.minimum.at(first_reader, maker[maker >= 0], self.reads.kernel[maker >= 0])
        return np.where(first_reader < len(first_reader), first_reader, 0)

    @cached_property
    def early_gradients(self) -> Flags:
        """[kernels] what routers compute for their gradients alone is launched with the forward pass, without lazy
        inline: with one micro-batch in each step, and no pipeline."""
        passing, backward = self.kernels.passing, self.kernels.backward
        early = np.zeros(len(passing), dtype=np.bool_)
        if len(self.batches) == self.steps and not self.is_piped:
            forward = np.flatnonzero((passing >= 0) & ~backward & ~self.rootless)
            for low, high in pairwise(self.step_starts.tolist()):
                here = forward[(low <= forward) & (forward < high)]
                if len(here):
                    early[low : here[-1]] = backward[low : here[-1]]
        return early

    @cached_property
    def _gradients_of_forward(self) -> tuple[Ints, Ints]:
        """(kernel, maker): kernels of the backward pass that read what the forward pass made for itself, too; the scale
        of the loss is ready before that has ended."""
        backward, maker, reader = self.kernels.backward, self.maker[self.reads.block], self.reads.kernel
        forward = np.zeros(len(backward), dtype=np.bool_)
        forward[maker[~backward[reader]]] = True
        shared = backward[reader] & ~backward[maker] & forward[maker] & ~self.early_gradients[reader]
        return reader[shared], maker[shared]

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
        begin_of = np.zeros(len(self.batches) + 1, dtype=np.int64)  # the last: of nodes in no pass
        for index in np.flatnonzero(own < len(passing)).tolist():
            before = np.searchsorted(busy, own[index])  # no gradient of this micro-batch is among these
            begin_of[index] = self._first_gradient(int(busy[before - 1]) if before else -1, int(own[index]), primitive)
        return begin_of[batch]

    @cached_property
    def _summed_in(self) -> Ints:
        """[kernels] the pass of each; of a norm behind the layers, that of the Add which it has taken in."""
        pass_of = self.kernels.passing.copy()
        for kernel in np.flatnonzero((pass_of < 0) & self.norms).tolist():
            pass_of[kernel] = max(pass_of[self.added(kernel)], default=-1)
        return pass_of

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
        waits: Flags = (primitive == "MatMul") & kernels.backward & ~inside
        waits |= (primitive == "Receive") & (np.arange(len(kernels)) >= first)
        written = set[int]()  # blocks, in place
        for kernel in np.flatnonzero(kernels.backward).tolist():
            read = reads.block[self.rows_of(kernel)].tolist()
            waits[kernel] |= any(waits[self.maker[block]] or block in written for block in read)
            if waits[kernel] and kernels.primitive[kernel].startswith(IN_PLACE):
                written.update(block for block in read if kernels.backward[self.maker[block]])
        return waits

    def _first_gradient(self, ahead: int, own: int, primitive: NDArray[np.str_]) -> int:
        """Where a backward pass begins whose first gradient in the layers is ``own``, behind the pass that ends with
        ``ahead``: a stage of a pipeline receives it, and sends on that of the pass before; the last begins with the
        gradient of the loss."""
        received = ahead + 1 + np.flatnonzero(primitive[ahead + 1 : own] == "Receive")
        if len(received):
            return int(received[0]) - bool(received[0] > ahead + 1 and primitive[received[0] - 1] == "Send")
        loss = self._gradients_of_forward[0]
        return int(loss[loss > ahead].min())
