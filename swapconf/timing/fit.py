"""MEASURED KERNELS + CARD -> FITS: how far kernels of each family came up to the rates of their card.

What each term costs is that of the least sum of relative errors (iteratively reweighted least squares), none below
nothing. What was known before counts as a few kernels more, so that what no kernel tells stays as it was.

That is what typical kernels take, and a step is their sum: some kernels take twice as long for reasons that no shape
tells, and none take half. So what operations and bytes cost is then changed for the estimates to come to the sum of
what was measured, the less the fewer kernels make most of it.

The range is from the few fastest to the few slowest of the kernels, wider the fewer there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from swapconf.timing.cost import Fit, Hardware, Terms
from swapconf.timing.families import kind_of, measured_terms
from swapconf.timing.hardware_names import LEAST_EFFICIENCY, MOST_EFFICIENCY, MOST_KERNEL_US, MOST_US
from swapconf.timing.measurements import MeasuredKernel
from swapconf.timing.seen import LEAST_US
from swapconf.upstream.device_kernels import plain

Floats = NDArray[np.float64]
_NAMES = ("floor_us", "spread_us", "full_us", "matrix", "cached", "memory")
_RATES = frozenset({"matrix", "cached", "memory"})
_ROUNDS = 30
_LEAST_COST = np.array([0.5, 0.0, 0.0, 0.1, 0.05, 0.1])
# what the public fit is asked as if it were measured: a least kernel, one on some cores, one on all, and large ones of
# each bound; as many as there are terms, so that each term has a figure that it stays at
_WIDE = (1.0, 5.585, 1.0)
_TYPICAL = np.array(
    [
        (1.0, 0, 0, 0, 0, 0),
        (1.0, 2.585, 0, 0, 0, 0),
        (*_WIDE, 0, 0, 0),
        (*_WIDE, 1e4, 0, 0),
        (*_WIDE, 0, 1e4, 0),
        (*_WIDE, 0, 0, 1e4),
    ]
)
PRIOR_WEIGHT = 0.25
# launches of one shape mostly differ by less: within it an error counts squared, or a long kernel that is known to a
# thousandth would decide about microseconds of its floor
_NOISE = 0.05
_SUM_PRIOR = 20.0  # so many kernels of equal length are what it takes to believe half of what their sum says
_IS_RATE = np.array([name in _RATES for name in _NAMES])
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class Sample:
    """A kernel and what it took. ``shape``: names its type and its tensors; ``kind``: of `families.kind_of`;
    ``type``: as the profiler calls it."""

    family: str
    terms: Terms
    us: float
    shape: str = ""
    kind: str = ""
    type: str = ""


def samples(kernels: Iterable[MeasuredKernel], hardware: Hardware) -> tuple[Sample, ...]:
    """Of the kernels whose shapes were recorded and that compute."""
    known: dict[object, tuple[str, Terms, str, str] | None] = {}  # a step launches the same shapes again and again
    found = []
    for kernel in kernels:
        key = (kernel.type, kernel.core, kernel.inputs, kernel.outputs, kernel.formats)
        if key not in known:
            made_of = measured_terms(kernel, hardware)
            kind = "" if made_of is None else kind_of(kernel.type, made_of[0], kernel.inputs, kernel.outputs)
            known[key] = None if made_of is None else (*made_of, _shape(kernel), kind)
        told = known[key]
        if told is not None and kernel.duration_us >= LEAST_US:
            family, terms, shape, kind = told
            found.append(Sample(family, terms, kernel.duration_us, shape, kind, kernel.type))
    return tuple(found)


def halves(kernels: Iterable[MeasuredKernel]) -> tuple[tuple[MeasuredKernel, ...], tuple[MeasuredKernel, ...]]:
    """Two parts, by a checksum of type and shapes, so that no shape is in both."""
    parts: tuple[list[MeasuredKernel], list[MeasuredKernel]] = ([], [])
    known: dict[object, int] = {}
    for kernel in kernels:
        key = (kernel.type, kernel.inputs, kernel.outputs)
        if key not in known:
            text = repr((kernel.type, [tensor.shape for tensor in (*kernel.inputs, *kernel.outputs)]))
            known[key] = crc32(text.encode()) % 2
        parts[known[key]].append(kernel)
    return tuple(parts[0]), tuple(parts[1])


def _shape(kernel: MeasuredKernel) -> str:
    """Types whose numbers differ are the same: which one runs is the choice of CANN."""
    return repr((plain(kernel.type), [(tensor.dtype, tensor.shape) for tensor in (*kernel.inputs, *kernel.outputs)]))


def fits(found: Sequence[Sample], public: Mapping[str, Fit], source: str) -> dict[str, Fit]:
    """Of the families that were seen; ``public``: what is known of all."""
    families: dict[str, list[Sample]] = defaultdict(list)
    for sample in found:
        families[sample.family].append(sample)
    return {family: fitted(mine, public[family], source) for family, mine in sorted(families.items())}


def ratios(found: Sequence[Sample], known: Mapping[str, Fit]) -> Floats:
    """[n] estimated over measured."""
    return np.array([known[item.family].time_us(item.terms) / item.us for item in found])


def fitted(mine: Sequence[Sample], public: Fit, source: str) -> Fit:
    """Of kernels that are fitted together; ``public``: what is known of them."""
    known = np.array([_cost(public, name) for name in _NAMES])
    terms = np.stack([_terms(sample.terms) for sample in mine])
    us = np.array([sample.us for sample in mine])
    typical = _least(terms / us[:, None], PRIOR_WEIGHT * _TYPICAL / (_TYPICAL @ known)[:, None])
    costs = _summed(terms, us, typical)
    low, high = _range(us / (terms @ costs))
    told = dict(zip(_NAMES, costs.tolist(), strict=True))
    before = [public.time_us(sample.terms) for sample in mine]
    return Fit(
        **{name: _rate(cost) if name in _RATES else min(cost, MOST_US) for name, cost in told.items()},
        low=low,
        high=min(high, MOST_US),
        kernels=len(mine),
        source=source,
        is_own=True,
        least_us=min(*before, MOST_KERNEL_US),
        most_us=min(max(before), MOST_KERNEL_US),
    )


def _terms(terms: Terms) -> Floats:
    return np.array([1.0, terms.spread, terms.full, terms.matrix_us, terms.cached_us, terms.memory_us])


def _cost(fit: Fit, name: str) -> float:
    value = float(getattr(fit, name))
    return 1 / value if name in _RATES else value


def _rate(cost: float) -> float:
    return min(max(1 / max(cost, 1e-9), LEAST_EFFICIENCY), MOST_EFFICIENCY)


def _least(seen: Floats, typical: Floats) -> Floats:
    """Both [n, 6], terms over what the kernel takes: what each costs, none below nothing. Errors of what was seen count
    as they are beyond the noise, of what is typical squared: it decides where there is no other reason."""
    used = np.ones(seen.shape[1], dtype=np.bool_)
    costs = np.zeros(seen.shape[1])
    wanted = np.full(len(typical), PRIOR_WEIGHT)
    while True:
        weight = np.ones(len(seen))
        for _ in range(_ROUNDS):
            matrix = np.concatenate([seen * weight[:, None], typical])[:, used]
            costs[used] = np.linalg.lstsq(matrix, np.concatenate([weight, wanted]), rcond=None)[0]
            weight = 1 / np.sqrt(np.maximum(np.abs(seen @ costs - 1), _NOISE))
        if (costs >= 0).all():
            return np.maximum(costs, _LEAST_COST)
        used &= costs >= 0
        costs[~used] = 0.0


def _summed(terms: Floats, us: Floats, costs: Floats) -> Floats:
    """``terms`` [n, 6], what typical kernels cost -> what they cost in a sum. Rates are what changes: floors are
    nothing in a sum, but all of a short kernel."""
    grows = np.where(_IS_RATE, costs, 0.0)
    grown_us = float((terms @ grows).sum())
    if grown_us <= 0:
        return costs
    # as many of equal length, without floors, would tell the rates as well
    kernels = grown_us**2 / float((us**2).sum())
    lacking = float((us - terms @ costs).sum()) / grown_us
    return np.maximum(costs + grows * max(lacking * kernels / (kernels + _SUM_PRIOR), -0.5), _LEAST_COST)


def _range(ratio: Floats) -> tuple[float, float]:
    """What was seen, widened by what so few do not show."""
    more = 1 + 0.5 / np.sqrt(len(ratio))
    low, high = np.quantile(ratio, _LOW), np.quantile(ratio, _HIGH)
    return float(min(low, 1.0) / more), float(max(high, 1.0) * more)
