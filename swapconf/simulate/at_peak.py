"""LIFETIMES -> BYTES at the moment of the peak, by what they hold."""

from __future__ import annotations

import numpy as np

from swapconf.simulation import CATEGORIES, Lifetimes


def by_category(lifetimes: Lifetimes) -> dict[str, int]:
    """Bytes in use at the peak by category, the largest first; only what is there."""
    moment = lifetimes.used.peak_time
    alive = (lifetimes.start <= moment) & (lifetimes.end > moment)
    sums = np.bincount(lifetimes.category[alive], weights=lifetimes.size_bytes[alive], minlength=len(CATEGORIES))
    found = {category.value: int(size) for category, size in zip(CATEGORIES, sums, strict=True) if size}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
