"""MEASURED KERNELS AND COPIES + CARD -> CALIBRATION: a card as one's own kernels show it, and how much closer that is.

Kernels of the shapes that were seen take what they took. Others of a kind take what a fit to these tells, where it
tells shapes that it did not see better than what was known before; else all stays as it was, as it does where nothing
was seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from swapconf.timing.cost import CARD_FIGURES, FIGURES, GIGA, Figure, Fit, Hardware
from swapconf.timing.families import FAMILIES, computes
from swapconf.timing.fit import Sample, fitted, samples
from swapconf.timing.held_out import Trial, Verdict, tried
from swapconf.timing.measurements import MeasuredCopy, MeasuredKernel
from swapconf.timing.seen import Seen, seen_of

LARGE_BYTES = 2**20  # of less, starting a copy takes longer than the copy
LINK = "host_link_gbps"
MOST_KINDS = 200  # a hardware file holds no more


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a hardware file of one's own tells.

    Attributes:
        figures: Of the card's rates, as far as its own file or these copies tell them.
        card: What it is made of, likewise.
        fits: By family, what was one's own before.
        kinds: By kind, the fits that are taken, and what was one's own before.
        seen: The shapes that were measured, also before.
        trials: By kind that was seen, how its fit does on shapes that it did not see.
        unseen: Families of which nothing was seen.
        link_gbps: Of copies to and from the host, the slower direction; None where no large one was seen.
    """

    figures: Mapping[str, Figure]
    card: Mapping[str, Figure]
    fits: Mapping[str, Fit]
    kinds: Mapping[str, Fit]
    seen: Seen
    trials: Mapping[str, Trial]
    unseen: tuple[str, ...]
    link_gbps: float | None

    def on(self, hardware: Hardware) -> Hardware:
        """The card with what it tells."""
        return replace(
            hardware,
            figures={**hardware.figures, **self.figures},
            assumed=hardware.assumed - set(self.figures),
            fits={**hardware.fits, **self.fits},
            kinds=self.kinds,
            seen=self.seen,
        )


def calibrated(
    kernels: Sequence[MeasuredKernel], copies: Sequence[MeasuredCopy], hardware: Hardware, source: str
) -> Calibration:
    """``hardware``: what is known before. ``source``: told of each figure that is new."""
    of_kind: dict[str, list[Sample]] = defaultdict(list)
    for item in samples(kernels, hardware):
        of_kind[item.kind].append(item)
    trials = {kind: tried(mine, hardware) for kind, mine in sorted(of_kind.items())}
    families = {trial.family for trial in trials.values()}
    link = link_gbps(copies)
    figures = {name: hardware.figures[name] for name in FIGURES if name not in hardware.assumed}
    if link is not None:
        figures[LINK] = Figure(value=float(f"{link:.4g}"), source=source)
    return Calibration(
        figures={name: figures[name] for name in FIGURES if name in figures},
        card={name: hardware.card[name] for name in CARD_FIGURES if name not in hardware.assumed_of_card},
        fits={family: fit for family, fit in hardware.fits.items() if fit.is_own},
        kinds=_kinds(of_kind, trials, hardware, source),
        seen=hardware.seen.with_later(seen_of(filter(computes, kernels))),
        trials=trials,
        unseen=tuple(family for family in FAMILIES if family not in families),
        link_gbps=link,
    )


def _kinds(
    of_kind: Mapping[str, Sequence[Sample]], trials: Mapping[str, Trial], hardware: Hardware, source: str
) -> dict[str, Fit]:
    """Those that are taken, and what was one's own before; of too many those that take longest."""
    taken = [kind for kind, trial in trials.items() if trial.verdict is Verdict.TAKEN]
    by_time = sorted(taken, key=lambda kind: -sum(item.us for item in of_kind[kind]))
    new = {kind: fitted(of_kind[kind], hardware.fits[trials[kind].family], source) for kind in by_time}
    kinds = {**new, **{kind: fit for kind, fit in hardware.kinds.items() if kind not in new}}
    return dict(sorted(list(kinds.items())[:MOST_KINDS]))


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
