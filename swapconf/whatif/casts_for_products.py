"""BASELINE -> CASTS FOR PRODUCTS: what MindSpore 2.7 casts by itself, since a product takes factors of one type only.

In layers that are recomputed, too, the backward pass reads what the forward pass has cast, so what these casts read
does not run again either (measured with MindSpore 2.7.1 and 2.7.2: what ChatGLM splits in its rotary embedding). From
2.9.0 on there is no such cast: what is split is multiplied as it is.
"""

from __future__ import annotations

import numpy as np

from swapconf.upstream.primitives import CAST, PRODUCT
from swapconf.whatif.baseline import Baseline

_SPLITS = "Split", "SplitWithSize"


def casts_for_products(baseline: Baseline) -> list[int]:
    """Kernels of the forward pass that cast what a split makes, and that only products read there."""
    kernels, reads = baseline.kernels, baseline.reads
    primitive, is_forward = kernels.primitives, ~kernels.backward[reads.kernel] & (reads.face >= 0)
    of_split = is_forward & np.isin(primitive[reads.face], _SPLITS) & (primitive[reads.kernel] == CAST)
    for_others = is_forward & (primitive[reads.kernel] != PRODUCT)
    casts: list[int] = np.setdiff1d(reads.kernel[of_split], reads.face[for_others]).tolist()
    return casts
