"""PLANS THAT WERE ASKED -> PROMISE of those that were not: what a search asks next. Nothing is judged by it.

Time, memory in use and fragments are guessed by Gaussian processes (Rasmussen and Williams 2006, algorithm 2.1). Plans
are alike where layers have the same mode, and where stages have as many layers of each mode. A plan promises the time
that it is expected to save, times the chance that it fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from swapconf.plan.judge import Judge, Scored
from swapconf.plan.modes import Mode, Plan
from swapconf.timing.timing import Floats

_LATEST = 500  # plans, that a guess is made from
_NOISE = 0.003  # of the variance of what is guessed
_NEAR = 0.3  # of it: what only plans have in common that differ in few layers


@dataclass(frozen=True, kw_only=True)
class _Told:
    """Plans as numbers. ``mode``: int16 [plans, layers]; ``counts``: [plans, stages * modes], rows at most 1 long."""

    mode: NDArray[np.int16]
    counts: Floats

    def __getitem__(self, which: NDArray[np.int64]) -> _Told:
        return _Told(mode=self.mode[which], counts=self.counts[which])

    def like(self, other: _Told) -> Floats:
        """[plans, others]: 1 for equal plans, 0 where they have nothing in common."""
        layers = self.mode.shape[1]
        alike = np.zeros((len(self.mode), len(other.mode)), dtype=np.int16)
        for layer in range(layers):
            alike += self.mode[:, layer, None] == other.mode[None, :, layer]
        same = alike.astype(np.float64)
        found: Floats = (1 - _NEAR) * (same / layers + self.counts @ other.counts.T) / 2 + _NEAR * np.exp(
            (same - layers) / 2
        )
        return found


class _Process:
    """``values``: [plans, what is guessed]."""

    def __init__(self, known: _Told, values: Floats) -> None:
        self._known = known
        self._middle, self._scale = values.mean(axis=0), values.std(axis=0) + 1e-9
        self._inverse = np.linalg.inv(known.like(known) + _NOISE * np.eye(len(values)))
        self._weight = self._inverse @ ((values - self._middle) / self._scale)

    def at(self, told: _Told) -> tuple[Floats, Floats]:
        """(value, variance), each [plans, what is guessed]."""
        like = told.like(self._known)
        unknown = np.maximum(1.0 + _NOISE - ((like @ self._inverse) * like).sum(axis=1), 1e-6)
        return self._middle + self._scale * (like @ self._weight), self._scale**2 * unknown[:, None]


class Guess:
    """Made from plans that were asked; for others ``promise``."""

    def __init__(self, judge: Judge, asked: Sequence[Scored], best: Scored) -> None:
        self._judge, self._best = judge, best
        self._modes: dict[Mode, int] = {}
        latest = asked[-_LATEST:]
        for item in latest:
            for mode in item.plan:
                self._modes.setdefault(mode, len(self._modes))
        known = self._told([item.plan for item in latest])
        ranks = range(len(judge.stages))
        used = np.array(
            [[item.found.ranks[rank].used_peak_bytes for rank in ranks] for item in latest], dtype=np.float64
        )
        cost = np.array([[item.cost_us] for item in latest])
        self._plain = _Process(known, np.hstack([cost, used]))
        placed = np.array([index for index, item in enumerate(latest) if item.pool_bytes is not None], dtype=np.int64)
        pools = np.array([latest[index].pool_bytes for index in placed.tolist()], dtype=np.float64)
        self._loose = _Process(known[placed], pools.reshape(len(placed), -1) - used[placed]) if len(placed) else None

    def promise(self, plans: Sequence[Plan]) -> Floats:
        """[plans] more is better, and nothing else is meant by it."""
        told = self._told(plans)
        value, variance = self._plain.at(told)
        pool, unsure = value[:, 1:], variance[:, 1:]
        if self._loose is not None:
            more, more_unsure = self._loose.at(told)
            pool, unsure = pool + more, unsure + more_unsure
        chance: Floats = _below((np.array(self._judge.limits.pool_bytes) - pool) / np.sqrt(unsure)).prod(axis=1)
        if not self._best.fits:
            return chance
        spread = np.sqrt(variance[:, 0])
        gain = (self._best.cost_us - value[:, 0]) / spread
        expected: Floats = spread * (gain * _below(gain) + np.exp(-(gain**2) / 2) / sqrt(2 * pi))
        return expected * chance

    def _told(self, plans: Sequence[Plan]) -> _Told:
        """What no known plan has is one mode more."""
        other = len(self._modes)
        mode = np.array([[self._modes.get(mode, other) for mode in plan] for plan in plans], dtype=np.int16)
        parts = []
        for layers in self._judge.stages:
            counts = np.zeros((len(plans), other + 1))
            for index in layers:
                counts[np.arange(len(plans)), mode[:, index]] += 1
            parts.append(counts / (max(len(layers), 1) * sqrt(len(self._judge.stages))))
        return _Told(mode=mode, counts=np.hstack(parts))


def _below(value: Floats) -> Floats:
    """The share of a normal distribution that lies below, to a hundredth."""
    found: Floats = 1 / (1 + np.exp(-np.clip(1.702 * value, -300, 300)))
    return found
