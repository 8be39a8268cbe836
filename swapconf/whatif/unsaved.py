"""BASELINE + SITES -> what is given to views that nothing saves, and that run again by themselves."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.sites import Sites


def given_to_unsaved(
    baseline: Baseline, sites: Sites, selected: Collection[tuple[str, str]], again: Flags, flagged: Flags
) -> Flags:
    """[kernels] what such a view shows is copied to the host for nobody, as is what else is given to a primitive whose
    recompute was asked for (see `site_actions.copied_unread`), although a gradient reads it through other views, which
    are copied for themselves: OffloadActivationOptimizer (frontend/parallel/pass/offload_activation.cc) asks node by
    node (measured with MindSpore 2.10.0: the Transpose in front of ``core_attention.reshape`` of TeleChat3). What no
    gradient reads at all is not (2.9.0: in front of ``apply_rotary_emb_classic.reshape`` of GLM; why, was not found).
    ``selected``: views whose recompute was asked for by their own names, by layer name and path. ``again``: [sites],
    and one more for none; ``flagged``: [kernels] that run again."""
    shown = (int(baseline.below[view]) for view, name in sites.unsaved if name in selected)
    given = np.zeros(len(baseline.kernels), dtype=np.bool_)
    given[[node for node in shown if node >= 0]] = True
    given[baseline.reads.face[baseline.kernels.backward[baseline.reads.kernel]]] = False
    given &= baseline.is_read_again
    return given & (sites.of_node >= 0) & ~again[sites.of_node] & ~baseline.splits & ~flagged
