"""NODES of layers that are no sites, although an operator of the catalog would fit them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.laid_out import DISPATCH


def of_strangers(baseline: Baseline, is_known: Flags) -> Flags:
    """Views without a cell of their own of what is no site, or for such alone, such as the dispatch of tokens to
    experts; also behind its communication, which is not that of a sharded primitive."""
    below, kernels, (reader, face) = baseline.below, baseline.kernels, baseline.edges
    dispatched = (kernels.stream[below] == 0) | (kernels.primitives[below] == DISPATCH)
    nodes, is_lost = np.arange(len(below)), kernels.is_lost
    stranger = ~is_known & is_lost & ~baseline.views & ~kernels.is_fused & (kernels.stream == 0)
    for_strangers = np.isin(nodes, face) & ~np.isin(nodes, face[~stranger[reader]])
    return np.asarray((below >= 0) & is_lost & ((~is_known[below] & dispatched) | for_strangers))


def like_misnamed(baseline: Baseline, readers: Mapping[int, frozenset[tuple[str, str]]]) -> Flags:
    """Nodes that MindSpore names after the first layer wherever they stand: parallelism has put them in. Those of the
    first layer itself are told by their likes."""
    kernels = baseline.kernels
    kinds = {node: (kernels.cell[node], kernels.primitive[node], found) for node, found in readers.items()}
    wanted = {kinds[node] for node in baseline.misnamed if node in kinds}
    found = np.zeros(len(kernels), dtype=np.bool_)
    found[[*baseline.misnamed, *(node for node, kind in kinds.items() if kind in wanted)]] = True
    return found
