"""WHAT A RECOMPUTED LAYER IS GIVEN -> a slice of it, kept for the backward pass, and what gathers it again.

With ``recompute_slice_activation`` and the parallel optimizer MindSpore keeps a slice of what an operator of a layer
that is recomputed as a whole leaves for one: the outputs of such layers, and what is left out of them. Ranks that hold
the same share it. Where none does, the slice is a view of the whole, and it is gathered from a group of one
(frontend/optimizer/slice_activation_in_recompute.cc). Such groups MindSpore makes only where the step is accumulated or
has pipeline stages, with the parallel optimizer; elsewhere it finds none, and keeps the whole, with lazy inline, too
(`OperatorInfo::CreateGroupByTensorMap` of frontend/parallel/ops_info/operator_info.cc; measured with MindSpore 2.9.0).
What several ranks hold is sliced along its first dimension where that can be divided by their number: with the one
sample of a rank that it cannot, and it stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swapconf.models.cells import NORM
from swapconf.trace.launch_graph import DEPEND, NO_NODE
from swapconf.whatif.graph.change import GraphChange
from swapconf.whatif.graph.run_graph import NO_KERNEL
from swapconf.whatif.graph.ties import Ties

_OPTION, _COMMUNICATION = "recompute_slice_activation", "mp_comm_recompute"
GATHER, _SLICE = "AllGather", "StridedSlice"
_REDUCES = "AllReduce"  # after it all ranks of a tensor-parallel group hold the same


@dataclass
class Slices(GraphChange):
    """By node that gathers a slice again, ``rows``: the row of the baseline that its block is like; ``kernel_of``: a
    kernel on the same stream."""

    ties: Ties
    rows: dict[int, int] = field(default_factory=dict)
    kernel_of: dict[int, int] = field(default_factory=dict)
    _slice_of: dict[int, int] = field(default_factory=dict)
    _gathered: dict[tuple[int, int], int] = field(default_factory=dict)

    def is_sliced(self, kernel: int, item: int) -> bool:
        """``kernel``, or `NO_KERNEL`: what makes a value that a recomputed cell is given."""
        if kernel == NO_KERNEL or not self._is_on or not self._is_of_whole_layer(kernel):
            return False
        made = self.baseline.made.get(kernel, [])
        is_only = len(made) == 1 or not self._sums.isdisjoint(made[item : item + 1])
        return is_only and not self._is_shared(kernel)

    @cached_property
    def _sums(self) -> frozenset[int]:
        return frozenset(self.baseline.sums.tolist())

    @cached_property
    def _is_on(self) -> bool:
        asks = self.marks.strategy.recompute_options.get(_OPTION, False)
        return asks and self._has_groups_of_one and bool(self._gathering)

    @property
    def _has_groups_of_one(self) -> bool:
        return self.baseline.is_accumulated or self.baseline.is_piped

    @cached_property
    def _gathering(self) -> list[int]:
        """Kernels of the parallel optimizer."""
        return [kernel for kernel in self.baseline.weights if self.baseline.kernels.primitive[kernel] == GATHER]

    def _is_of_whole_layer(self, kernel: int) -> bool:
        baseline, roots = self.baseline, self.marks.actions.roots
        summed = baseline.added(kernel) if baseline.norms[kernel] else [kernel]
        is_computed = not baseline.kernels.stream[kernel]  # what is received is no operator's
        return is_computed and all("" in roots.get(baseline.layer_of(part), ()) for part in summed)

    def _is_shared(self, kernel: int) -> bool:
        """Several ranks hold the same: the sums and norms of a model whose ranks reduce what they compute, what a cell
        makes that gathers heads first, as the rotary embedding of GLM, and all that stays without
        ``mp_comm_recompute`` (measured with MindSpore 2.9.0: legacy Llama and GLM)."""
        cell = self.baseline.kernels.cell[kernel]
        is_wide = cell == "" or NORM in cell.lower() or cell in self._gathering_cells
        stays = not self.marks.strategy.recompute_options.get(_COMMUNICATION, True)
        return self._reduces and (is_wide or stays)

    @cached_property
    def _gathering_cells(self) -> frozenset[str]:
        cells = self.baseline.kernels.cell
        return frozenset(cells[kernel] for kernel in self._of_forward(GATHER))

    @cached_property
    def _reduces(self) -> bool:
        return bool(self._of_forward(_REDUCES))

    def _of_forward(self, primitive: str) -> list[int]:
        """Kernels of the forward pass."""
        kernels = self.baseline.kernels
        is_of_forward = (kernels.primitives == primitive) & ~kernels.backward & (kernels.passing >= 0)
        of_forward: list[int] = np.flatnonzero(is_of_forward).tolist()
        return of_forward

    def gathered(self, seen: int, gate: int, row: int) -> int:
        """``seen``: the value behind the barrier of a call, if there is one."""
        inputs, primitive = self.nodes.inputs, self.nodes.primitive
        is_tied = primitive[seen] == DEPEND and inputs[seen][1] in self.run.barriers
        value, barrier = inputs[seen][:2] if is_tied else (seen, NO_NODE)
        value = self.run.unpacked(value) if value < self.nodes.count else value
        if (value, gate) not in self._gathered:
            waits = self.ties.gated(self.ties.behind_barrier(self._sliced(value), barrier), gate)
            self._gathered[value, gate] = self.nodes.add(GATHER, (waits,), f"Default/{GATHER}")
            self.rows[self._gathered[value, gate]] = row
            self.kernel_of[self._gathered[value, gate]] = self._gathering[0]
        return self._gathered[value, gate]

    def _sliced(self, value: int) -> int:
        if value not in self._slice_of:
            self._slice_of[value] = self.nodes.add(_SLICE, (value,), f"Default/{_SLICE}")
        return self._slice_of[value]
