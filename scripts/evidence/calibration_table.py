"""What `swapconf calibrate` makes of public profiles, for docs/evidence/kernel-times.md (scripts/evidence/kernels.py).

The shapes of a profile are divided into halves by chance. One half is calibrated, the other is judged, and likewise the
other way round: the kernels of each family before and after, and what each seen shape comes out as.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from swapconf.profile import kernel_details
from swapconf.timing import fit, hardware
from swapconf.timing.calibration import calibrated
from swapconf.timing.cost import Hardware
from swapconf.timing.families import kind_of, measured_terms
from swapconf.timing.hardware_names import names
from swapconf.timing.held_out import Judged
from swapconf.timing.measurements import MeasuredKernel
from swapconf.timing.recognition import likeness
from swapconf.timing.seen import LEAST_US
from swapconf.upstream.device_kernels import plain

DIVISIONS = 25  # each gives two halves
NOISE = 0.005  # of an error: half a point
Halves = tuple[Sequence[MeasuredKernel], Sequence[MeasuredKernel]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """``card``: that it is of, by name."""

    name: str
    card: str
    file: Path


@dataclass(kw_only=True, slots=True)
class Tally:
    """Of one profile, over all halves.

    Attributes:
        judged, worse, worse_always: Families in halves: all, those worse by half a point and more in the median or in
            nine of ten, and those that would be if every fit to a family were taken.
        changed: Of the families in which something was taken, in how many halves, and (before, after) there.
        pooled: Estimated before, estimated after, measured; of all that is judged.
        off: The farthest that a seen shape comes out from its median, as a part of it.
    """

    judged: int = 0
    worse: int = 0
    worse_always: int = 0
    changed: dict[str, list[tuple[Judged, Judged]]] = field(default_factory=lambda: defaultdict(list))
    pooled: list[tuple[float, float, float]] = field(default_factory=list)
    off: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """``table``: a row for each profile; ``families``: for each family in which a fit was taken; the sums of
    `Tally`."""

    table: str
    families: str
    judged: int
    worse: int
    worse_always: int


def section(profiles: Sequence[Profile]) -> Section:
    tallies = []
    head = "| profile, card | kernels, shapes | recognised as | before: median, P90, sum | after | worse | always |\n"
    lines = [head, f"|{'---|' * 7}\n"]
    below = ["| profile | family | halves | before: median, P90, sum | after |\n", f"|{'---|' * 5}\n"]
    for profile in profiles:
        kernels = kernel_details.read(profile.file)
        tally = tallied(kernels, hardware.load(profile.card))
        tallies.append(tally)
        before, after, us = np.array(tally.pooled).T
        shapes = len({_shape(kernel) for kernel in _priced(kernels, hardware.load(profile.card))})
        assert tally.off < 1e-9, f"{profile.name}: a seen shape is off its median by {tally.off:.1e}"
        lines.append(
            f"| {profile.name}, {profile.card} | {len(kernels)}, {shapes} | {_recognised(kernels)} | "
            f"{_figures(Judged.of(before, us))} | {_figures(Judged.of(after, us))} | {tally.worse} of {tally.judged} | "
            f"{tally.worse_always} of {tally.judged} |\n"
        )
        for family, found in sorted(tally.changed.items()):
            middle = [_figures(_middle([pair[side] for pair in found])) for side in (0, 1)]
            below.append(f"| {profile.name} | {family} | {len(found)} | {middle[0]} | {middle[1]} |\n")
    return Section(
        table="".join(lines),
        families="".join(below),
        judged=sum(tally.judged for tally in tallies),
        worse=sum(tally.worse for tally in tallies),
        worse_always=sum(tally.worse_always for tally in tallies),
    )


def tallied(kernels: Sequence[MeasuredKernel], card: Hardware) -> Tally:
    tally = Tally()
    for seen, held in _halves(_priced(kernels, card)):
        found = calibrated(seen, (), card, "a half")
        own = found.on(card)
        all_taken = {**card.fits, **fit.fits(fit.samples(seen, card), card.fits, "a half")}
        by_family: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
        for kernel in held:
            made_of = measured_terms(kernel, card)
            assert made_of is not None
            family, terms = made_of
            kind = kind_of(kernel.type, family, kernel.inputs, kernel.outputs)
            match = own.seen.match(kernel.type, kernel.inputs, kernel.outputs) if not any(kernel.formats) else None
            after = own.time_us(kind, family, terms) if match is None else match.us
            before, every = card.fits[family].time_us(terms), all_taken[family].time_us(terms)
            by_family[family].append((before, after, every, kernel.duration_us))
        for family, rows in by_family.items():
            before_us, after_us, every_us, us = np.array(rows).T
            plainly, now, always = (Judged.of(column, us) for column in (before_us, after_us, every_us))
            tally.judged += 1
            tally.worse += _is_worse(now, plainly)
            tally.worse_always += _is_worse(always, plainly)
            tally.pooled += [(row[0], row[1], row[3]) for row in rows]
            if (before_us != after_us).any():
                tally.changed[family].append((plainly, now))
        tally.off = max(tally.off, _off(seen, own))
    return tally


def _off(seen: Sequence[MeasuredKernel], own: Hardware) -> float:
    times: dict[object, list[MeasuredKernel]] = defaultdict(list)
    for kernel in seen:
        if not any(kernel.formats):
            times[_shape(kernel)].append(kernel)
    farthest = 0.0
    for alike in times.values():
        match = own.seen.match(alike[0].type, alike[0].inputs, alike[0].outputs)
        middle = float(np.median([kernel.duration_us for kernel in alike]))
        farthest = max(farthest, 1.0 if match is None else abs(match.us / middle - 1))
    return farthest


def _halves(kernels: Sequence[MeasuredKernel]) -> Iterator[Halves]:
    shapes = sorted({_shape(kernel) for kernel in kernels}, key=repr)
    for seed in range(DIVISIONS):
        chance = random.Random(seed)
        first = {shape for shape in shapes if chance.random() < 0.5}
        parts: tuple[list[MeasuredKernel], list[MeasuredKernel]] = ([], [])
        for kernel in kernels:
            parts[_shape(kernel) in first].append(kernel)
        yield parts
        yield parts[::-1]


def _priced(kernels: Sequence[MeasuredKernel], card: Hardware) -> list[MeasuredKernel]:
    return [kernel for kernel in kernels if kernel.duration_us >= LEAST_US and measured_terms(kernel, card)]


def _shape(kernel: MeasuredKernel) -> tuple[object, ...]:
    return plain(kernel.type), kernel.inputs, kernel.outputs


def _recognised(kernels: Sequence[MeasuredKernel]) -> str:
    cards: Mapping[str, Hardware] = {name: hardware.load(name) for name in names() if name != hardware.GENERIC}
    return ", ".join(likeness(kernels, cards).nearest(cards)) or "-"


def _is_worse(now: Judged, before: Judged) -> bool:
    return now.median > before.median + NOISE or now.ninth > before.ninth + NOISE


def _middle(found: Sequence[Judged]) -> Judged:
    columns = [[getattr(one, name) for one in found] for name in ("median", "ninth", "total", "mean")]
    median, ninth, total, mean = (float(np.median(column)) for column in columns)
    return Judged(median=median, ninth=ninth, total=total, mean=mean)


def _figures(judged: Judged) -> str:
    return f"{judged.median:.1%}, {judged.ninth:.1%}, {judged.total:.3f}"
