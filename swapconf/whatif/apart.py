"""BASELINE + PROGRAM -> what MindSpore no longer merges, because not all of its cells move it alike."""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Flags
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.recompute import StrategyProgram
from swapconf.whatif.site_actions import SiteActions
from swapconf.whatif.swap import Windows


def apart(prepared: PlacedBaseline, actions: SiteActions, windows: Windows) -> Flags:
    """Casts that several cells share in the baseline, of which not all move alike."""
    maker = prepared.sites.of_moved[windows.face]
    is_cast = (prepared.baseline.kernels.primitives == "Cast")[windows.face]
    is_cast &= windows.block == windows.row
    return np.asarray(is_cast & (maker >= 0) & (maker != windows.site) & (actions.prefetch[maker] != windows.prefetch))


def views_apart(prepared: PlacedBaseline, actions: SiteActions, program: StrategyProgram) -> Flags:
    """[kernels] views that several cells share in the baseline, of which not all move alike: MindSpore does not merge
    them then, so that there is a kernel more."""
    primitive = prepared.baseline.kernels.primitives
    rows = np.flatnonzero((program.site >= 0) & (program.face >= 0))
    face, kind = program.face[rows], actions.moved_alike[program.site[rows]]
    least, most = np.full(len(primitive), np.iinfo(np.int64).max), np.full(len(primitive), -1, dtype=np.int64)
    np.minimum.at(least, face, kind)
    np.maximum.at(most, face, kind)
    return np.asarray(prepared.baseline.views & (least < most))
