"""MEASURED KERNELS AND COPIES + CARD -> CALIBRATION: a card as one's own kernels show it, and how much closer that is.

What is told of the error after calibrating is held out: each kernel is judged by the fit to the half of the shapes that
it is not in. What was not seen stays as it is publicly known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import FIGURES, GIGA, Figure, Fit, Hardware
from swapconf.timing.families import FAMILIES
from swapconf.timing.fit import Sample, fits, halves, ratios, samples
from swapconf.timing.measurements import MeasuredCopy, MeasuredKernel

LARGE_BYTES = 2**20  # of less, starting a copy takes longer than the copy
LINK = "host_link_gbps"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Errors of the estimates of some kernels: the median, that of which nine tenths are not above, and all estimates
    over all that was measured."""

    median: float
    ninth: float
    total: float

    @classmethod
    def of(cls, ratio: NDArray[np.float64], us: NDArray[np.float64]) -> Judged:
        error = np.abs(ratio - 1)
        return cls(
            median=float(np.median(error)),
            ninth=float(np.quantile(error, 0.9)),
            total=float((ratio * us).sum() / us.sum()),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """``before``, ``after``: of all kernels, None where none had shapes; ``families``: (kernels, before, after) by
    family that was seen; ``unseen``: all others. ``link_gbps``: of copies to and from the host, the slower direction;
    None where no large one was seen."""

    figures: Mapping[str, Figure]
    fits: Mapping[str, Fit]
    before: Judged | None
    after: Judged | None
    families: Mapping[str, tuple[int, Judged, Judged]]
    unseen: tuple[str, ...]
    link_gbps: float | None


def calibrated(
    kernels: Sequence[MeasuredKernel], copies: Sequence[MeasuredCopy], hardware: Hardware, source: str
) -> Calibration:
    """``hardware``: what is publicly known. ``source``: told of each figure that is new."""
    found = samples(kernels, hardware)
    after = _held_out(kernels, hardware, source)
    link = link_gbps(copies)
    figures = {name: hardware.figures[name] for name in FIGURES if name not in hardware.assumed}
    if link is not None:
        figures[LINK] = Figure(value=float(f"{link:.4g}"), source=source)
    own = fits(found, hardware.fits, source)
    families = {}
    for family in own:
        mine = [item for item in found if item.family == family]
        held = [item for item in after if item[0].family == family]
        families[family] = (len(mine), _judged(mine, hardware.fits), _judged_as(held))
    return Calibration(
        figures={name: figures[name] for name in FIGURES if name in figures},
        fits=own,
        before=_judged(found, hardware.fits) if found else None,
        after=_judged_as(after) if after else None,
        families=families,
        unseen=tuple(family for family in FAMILIES if family not in own),
        link_gbps=link,
    )


def link_gbps(copies: Sequence[MeasuredCopy]) -> float | None:
    """The median rate of large copies, in the slower direction."""
    rates = []
    for direction in (True, False):
        mine = [
            copy.size_bytes / copy.duration_us * 1e6 / GIGA
            for copy in copies
            if copy.to_host is direction and copy.size_bytes >= LARGE_BYTES and copy.duration_us > 0
        ]
        if mine:
            rates.append(float(np.median(mine)))
    return min(rates, default=None)


def _held_out(kernels: Sequence[MeasuredKernel], hardware: Hardware, source: str) -> list[tuple[Sample, float]]:
    """(a kernel, the estimate over what it took by the fit to the other half of the shapes)."""
    one, other = (samples(half, hardware) for half in halves(kernels))
    judged: list[tuple[Sample, float]] = []
    for seen, held in ((one, other), (other, one)):
        known = {**hardware.fits, **fits(seen, hardware.fits, source)}
        judged += zip(held, ratios(held, known).tolist(), strict=True)
    return judged


def _judged(found: Sequence[Sample], known: Mapping[str, Fit]) -> Judged:
    return Judged.of(ratios(found, known), np.array([item.us for item in found]))


def _judged_as(held: Sequence[tuple[Sample, float]]) -> Judged:
    return Judged.of(np.array([ratio for _, ratio in held]), np.array([item.us for item, _ in held]))
