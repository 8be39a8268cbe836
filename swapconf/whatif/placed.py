"""BASELINE + NETWORK -> PLACED BASELINE: the run that questions are asked of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from swapconf.decide.strategy import LayerPlan, Strategy
from swapconf.models.network import LayerTemplate, Network
from swapconf.trace.columns import Flags, Ints
from swapconf.trace.work import COLLECTIVES
from swapconf.whatif.assigned import assign
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.cell_primitives import path_among
from swapconf.whatif.latest import Latest
from swapconf.whatif.lazy_inline import Barrier, barriers
from swapconf.whatif.merged_views import merged_views
from swapconf.whatif.parted import User, cells_of
from swapconf.whatif.redistributed import redistributed
from swapconf.whatif.served import casts_behind_sums
from swapconf.whatif.sites import Sites

_ONCE = frozenset({"Receive", "TensorMove"})
_RERUNS = 32  # of the latest strategies that run different things again


@dataclass(frozen=True, kw_only=True)
class PlacedBaseline:
    """A baseline whose nodes are known as sites of a network; made once, asked often."""

    baseline: Baseline
    sites: Sites
    network: Network

    @cached_property
    def reruns(self) -> Latest[Hashable, Any]:
        """What the latest strategies run again; see `rerun_of`."""
        return Latest(_RERUNS)

    @cached_property
    def _users(self) -> Latest[tuple[LayerTemplate, ...], dict[int, dict[User, tuple[str, str]]]]:
        return Latest(_RERUNS)

    def users_of_shared(self, strategy: Strategy) -> Mapping[int, Mapping[User, tuple[str, str]]]:
        """By kernel that all layers share its users, and the site that each of them has for it."""
        key = tuple(entry.layer.template for entry in strategy.layers)
        if key not in self._users:
            kernels, name, operators = self.baseline.kernels, self.baseline.layers.name, strategy.operators
            layers = np.unique(kernels.layer[kernels.passing[kernels.passing >= 0]]).tolist()
            self._users[key] = {
                kernel: {
                    (layer, cell): (name(layer), path_among(path, operators.get(name(layer), ())))
                    for layer in layers
                    for cell, path in zip(cells_of(paths), paths, strict=True)
                }
                for kernel, paths in self.sites.shared
                if self.sites.of_moved[kernel] >= 0  # else it is no operator
            }
        return self._users[key]

    def plans(self, strategy: Strategy) -> tuple[LayerPlan, ...]:
        """Of the layers that it has."""
        return tuple(entry.plan for entry in strategy.layers if entry.layer.name in self._layers)

    @cached_property
    def _layers(self) -> frozenset[str]:
        return frozenset(layer for layer, _ in self.sites.names) | {*map(self.baseline.layer_of, self.passes)}

    @cached_property
    def is_once(self) -> Flags:
        """[kernels] what never runs again: copies that MindSpore puts in when all else is decided, what another stage
        sends, and what gathers weights from the shards of the parallel optimizer, of which ``Cell.recompute`` takes no
        notice whatever ``parallel_optimizer_comm_recompute`` is (measured with MindSpore 2.9.0)."""
        primitives = self.baseline.kernels.primitives
        return np.isin(primitives, list(_ONCE)) | self.baseline.of_weights & np.isin(primitives, list(COLLECTIVES))

    @cached_property
    def passes(self) -> tuple[int, ...]:
        """The numbers of all passes, ascending."""
        passing = self.baseline.kernels.passing
        return tuple(np.unique(passing[passing >= 0]).tolist())

    @cached_property
    def barriers(self) -> tuple[Barrier, ...]:
        """Where the forward pass ends with swap, although it does not in the baseline."""
        return barriers(self.baseline)

    @cached_property
    def redistributed(self) -> Flags:
        """[kernels] see `redistributed.redistributed`."""
        return redistributed(self.baseline, self.sites, self.network)

    @cached_property
    def merged_views(self) -> frozenset[int]:
        """See `merged_views.merged_views`."""
        return merged_views(self.baseline, self.sites, self.network)

    @cached_property
    def rounding(self) -> frozenset[int]:
        """See `served.casts_behind_sums`."""
        return frozenset(np.flatnonzero(casts_behind_sums(self.baseline)).tolist())

    @cached_property
    def gradient_only(self) -> dict[int, Ints]:
        """What the loss computes for its gradient alone, by the first kernel of the backward pass."""
        return gradient_only(self.baseline)


def placed(baseline: Baseline, network: Network) -> PlacedBaseline:
    """Also computes what the baseline derives from its columns, so that the first question is as fast as the next."""
    _ = baseline.below, baseline.edges, baseline.twin_block, baseline.upfront, baseline.returnable, baseline.step_starts
    _ = baseline.codes, baseline.num_made, baseline.num_readers, baseline.rows_of(0), baseline.splits, baseline.made
    _ = baseline.depth, baseline.distance
    sites = assign(baseline, network)
    _ = sites.loose
    prepared = PlacedBaseline(baseline=baseline, sites=sites, network=network)
    _ = prepared.is_once, prepared.barriers, prepared.gradient_only
    return prepared


# --- what the loss computes for its gradient alone --------------------------------------------------------------------


def gradient_only(baseline: Baseline) -> dict[int, Ints]:
    """What the loss computes for its gradient alone, such as ``Cast``, ``Exp`` and ``Sub`` of the softmax: it reads the
    forward pass, and nothing that is made behind its end. MindSpore names many gradients after a cell of a layer that
    they are not of, so that a gradient inside the layers is told by what it reads.

    Returns:
        By the first kernel of a backward pass: kernels behind it, up to the first gradient inside the layers, on the
    main stream, that read what the forward pass made, or each other, alone, and that a gradient needs.
    """
    kernels, reads = baseline.kernels, baseline.reads
    inside = np.zeros(len(kernels), dtype=np.bool_)
    inside[reads.kernel[(reads.face >= 0) & (kernels.passing[reads.face] >= 0)]] = True
    inside &= kernels.backward & ~baseline.views
    of_gradients = np.zeros(len(kernels), dtype=np.bool_)
    of_gradients[reads.kernel[kernels.backward[baseline.maker[reads.block]]]] = True
    by_start: dict[int, Ints] = {}
    for start in np.unique(baseline.returnable[baseline.returnable > 0]).tolist():
        end = start + int(np.argmax(np.append(inside[start:], True)))
        if needed := _needed(baseline, _alone(baseline, start, end), of_gradients):
            by_start[start] = np.array(needed, dtype=np.int64)
    return by_start


def _alone(baseline: Baseline, start: int, end: int) -> list[int]:
    kernels, maker = baseline.kernels, baseline.maker[baseline.reads.block]
    alone: list[int] = []
    for kernel in range(start, end):
        makers = [int(maker[row]) for row in baseline.rows_of(kernel)]
        is_forward = bool(makers) and not kernels.backward[kernel] and kernels.stream[kernel] == 0
        if is_forward and all(source < start or source in alone for source in makers):
            alone.append(kernel)
    return alone


def _needed(baseline: Baseline, alone: list[int], of_gradients: Flags) -> list[int]:
    needed: list[int] = []
    for kernel in reversed(alone):
        readers = set(baseline.followers(kernel))
        if readers & set(needed) or any(of_gradients[reader] for reader in readers - set(alone)):
            needed.insert(0, kernel)
    return needed
