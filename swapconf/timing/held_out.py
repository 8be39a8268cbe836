"""SAMPLES OF A KIND -> VERDICT: whether a fit to some shapes tells others better than what was known before.

The shapes are divided into halves by chance, some times, always in the same way; each half is judged by the fit to the
other. A fit is taken where it is worse in nothing that is told of it, and in most halves clearly better: few shapes
make most of the time, so that a fit may look better by chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import log
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import Hardware
from swapconf.timing.fit import Sample, fitted
from swapconf.words.phrases import mark

Floats = NDArray[np.float64]
_DIVISIONS = 8
_FEWEST, _FEW = 3, 6  # shapes: of fewer nothing can be said, or a fit has to be better by more
_LEFT, _CLOSE_LEFT = 0.6, 0.4  # of the mean error
_CLOSE = 0.2  # mean error
_LEAST_GAIN = 0.1  # launches of one shape differ by half of it
_WORSE_HALVES = 0.1
_SUM_BY_CHANCE = 0.02
_MOST_SAMPLES = 4000  # to judge; more of the same shapes tell the same


class Verdict(Enum):
    """Whether the fit of a kind is taken, and why."""

    TAKEN = mark("taken")
    NOT_CLOSER = mark("kept: not closer")
    TOO_FEW = mark("kept: too few shapes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Errors of the estimates of some kernels: the median, that of which nine tenths are not above, all estimates over
    all that was measured, and the mean of how many times (as a logarithm) an estimate is off."""

    median: float
    ninth: float
    total: float
    mean: float

    @classmethod
    def of(cls, estimated: Floats, us: Floats) -> Judged:
        error = np.abs(estimated / us - 1)
        return cls(
            median=float(np.median(error)),
            ninth=float(np.quantile(error, 0.9)),
            total=float(estimated.sum() / us.sum()),
            mean=float(np.abs(np.log(estimated / us)).mean()),
        )

    def is_worse_than(self, other: Judged) -> bool:
        """In the median, in nine of ten, or, by more than chance, in the sum, of which few kernels make most."""
        return (
            self.median > other.median
            or self.ninth > other.ninth
            or abs(log(self.total)) > abs(log(other.total)) + _SUM_BY_CHANCE
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """How the fit of a kind does.

    Attributes:
        family: Of the kind.
        type: As the profiler calls most of its kernels.
        before: Of all kernels, by what was known.
        held_before, held_after: Of those that another half could tell, by what was known and by the fit to the other
            half; None where there is one shape.
    """

    family: str
    type: str
    kernels: int
    shapes: int
    before: Judged
    held_before: Judged | None
    held_after: Judged | None
    verdict: Verdict


def tried(mine: Sequence[Sample], hardware: Hardware) -> Trial:
    """``mine``: of one kind; ``hardware``: what is known before."""
    shapes = _by_shape(mine)
    pairs = [_judge(seen, held, hardware) for seen, held in _divisions(shapes)] if len(shapes) > 1 else []
    us = np.array([item.us for item in mine])
    trial = Trial(
        family=mine[0].family,
        type=Counter(item.type for item in mine).most_common(1)[0][0],
        kernels=len(mine),
        shapes=len(shapes),
        before=Judged.of(_estimated(mine, hardware), us),
        held_before=None,
        held_after=None,
        verdict=Verdict.TOO_FEW,
    )
    if not pairs:
        return trial
    took, plainly, theirs = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    held_before, held_after = Judged.of(plainly, took), Judged.of(theirs, took)
    worse = sum(Judged.of(other, one).mean > Judged.of(public, one).mean for one, public, other in pairs)
    is_few = len(shapes) < _FEW
    left = held_after.mean / held_before.mean if held_before.mean else 1.0
    is_better = (
        len(shapes) >= _FEWEST
        and not held_after.is_worse_than(held_before)
        and held_before.mean - held_after.mean >= _LEAST_GAIN
        and left <= (_CLOSE_LEFT if is_few else _LEFT)
        and (held_after.mean <= _CLOSE or (left <= _CLOSE_LEFT and not is_few))
        and worse <= (0 if is_few else _WORSE_HALVES * len(pairs))
    )
    verdict = Verdict.TAKEN if is_better else Verdict.NOT_CLOSER if len(shapes) >= _FEWEST else Verdict.TOO_FEW
    return replace(trial, held_before=held_before, held_after=held_after, verdict=verdict)


def _by_shape(mine: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Of each shape as many as make its share of what is judged, from the fastest to the slowest."""
    shapes: dict[str, list[Sample]] = defaultdict(list)
    for item in sorted(mine, key=lambda sample: (sample.shape, sample.us)):
        shapes[item.shape].append(item)
    share = min(1.0, _MOST_SAMPLES / len(mine))
    return {shape: [items[i] for i in _spread(len(items), share)] for shape, items in shapes.items()}


def _spread(count: int, share: float) -> list[int]:
    kept = max(1, round(count * share))
    return [(2 * place + 1) * count // (2 * kept) for place in range(kept)]


def _divisions(shapes: dict[str, list[Sample]]) -> Iterator[tuple[list[Sample], list[Sample]]]:
    """(to fit, to judge), both halves of each division."""
    done = set()
    for turn in range(_DIVISIONS):
        order = sorted(shapes, key=lambda shape: (crc32(f"{turn} {shape}".encode()), shape))
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            chosen = frozenset(half)
            if chosen not in done:
                done.add(chosen)
                yield (
                    [item for shape in half for item in shapes[shape]],
                    [item for shape, items in shapes.items() if shape not in chosen for item in items],
                )


def _judge(seen: Sequence[Sample], held: Sequence[Sample], hardware: Hardware) -> tuple[Floats, Floats, Floats]:
    """Of those held: what they took, what was known of them, what the fit to the others tells."""
    known = hardware.fits[held[0].family]
    theirs = fitted(seen, known, "")
    return (
        np.array([item.us for item in held]),
        _estimated(held, hardware),
        np.array([theirs.goes_on(item.terms, known) for item in held]),
    )


def _estimated(samples: Sequence[Sample], hardware: Hardware) -> Floats:
    return np.array([hardware.time_us(item.kind, item.family, item.terms) for item in samples])
