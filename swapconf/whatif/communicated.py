"""BASELINE + SITES -> NODES that run again because the recompute of communication was asked for beside them.

MindSpore marks a change of layout between two primitives where the one that reads the tensor, or else the one that
makes it, carries ``recompute_comm_op`` (InsertRedistribution). In front of a Reshape the change is a part of that, and
only the Reshape counts (StepReplaceOp).
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.upstream.primitives import RESHAPE
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.redistributed import changes_layout
from swapconf.whatif.sites import Sites
from swapconf.whatif.spread import spread


def communicated(baseline: Baseline, sites: Sites, asked: Flags) -> Flags:
    """[kernels] ``asked``: [sites], and one more for none."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    if not asked.any():
        return np.zeros(len(kernels), dtype=np.bool_)
    put_in = (sites.of_node < 0) & (kernels.passing >= 0) & ~kernels.backward
    steps = put_in & changes_layout(baseline, sites)
    views = kernels.primitives == RESHAPE
    beside, among = asked[sites.of_node], steps | put_in & views
    in_reshape = spread(face, reader, views & ~put_in, among)
    found = spread(face, reader, beside, among) | spread(reader, face, beside, among) & ~in_reshape
    return np.asarray(found & (steps | spread(face, reader, found & steps, found)))


def of_views_left_out(baseline: Baseline, sites: Sites, excluded: Flags) -> Flags:
    """[kernels] communication that sends what a view shows whose recompute is ``excluded``: [sites], and one more."""
    if not excluded.any():
        return np.zeros(len(baseline.kernels), dtype=np.bool_)
    of_view = np.zeros(len(excluded), dtype=np.bool_)
    of_view[sites.of_node[baseline.views]] = True
    return np.asarray((sites.of_node < 0) & (excluded & of_view)[sites.of_moved])
