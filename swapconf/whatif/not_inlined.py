"""BASELINE -> NODES that do not run again without lazy inline, whatever cell around them is recomputed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.communicated import spread
from swapconf.whatif.laid_out import DISPATCH

_SORT = "SortExt"  # of tokens, before they are sent and behind


def left(baseline: Baseline, outputs: Sequence[int]) -> Flags:
    """[kernels] see `decide.lazy_inline`. ``outputs``: blocks of recomputed cells, one of several of a kernel each."""
    stays = baseline.of_weights | (baseline.kernels.primitives == DISPATCH) | baseline.lost_splits
    stays |= baseline.of_other_cells | _sorts_to_send(baseline)
    stays[baseline.maker[list(outputs)]] = True
    return np.asarray(stays)


def _sorts_to_send(baseline: Baseline) -> Flags:
    """[kernels] sorts of the tokens of experts before they are sent. mindformers calls them with a keyword, and
    MindSpore then makes nodes that tell no cell, as of splits (see ``lost_splits``). Those of what came are called
    without, and run again (measured with 2.9.0: Qwen3-MoE and DeepSeek-V3)."""
    kernels, (reader, face) = baseline.kernels, baseline.edges
    sorts = (kernels.primitives == _SORT) & kernels.is_lost & (kernels.passing >= 0)
    sent = kernels.primitives == DISPATCH
    return np.asarray(sorts & ~spread(reader, face, sent, np.ones_like(sent))) if sorts.any() else sorts
