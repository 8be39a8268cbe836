"""SWEEP: one strategy under many prefetches, what each costs in memory and, on a card, in time; and which is best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NOISE = 0.001
ROUNDING_US = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerCopies:
    """The copies of one layer in a step. ``late_us``: how long the main stream stands still for them, ``twice_bytes``:
    tensors of which two device copies live at some time."""

    layer: str
    late_us: float
    twice_bytes: int

    @property
    def is_late(self) -> bool:
        return self.late_us > ROUNDING_US


@dataclass(frozen=True, kw_only=True, slots=True)
class PointTime:
    """``exposed_copy_us``: how long the main stream stands still for copies, both ways together."""

    step_us: float
    exposed_copy_us: float
    layers: tuple[LayerCopies, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One prefetch of a sweep.

    Attributes:
        twice_bytes: Tensors of which two device copies live at some time.
        crashes: MindSpore cannot compile it.
        time: None where no card is given.
    """

    prefetch: int
    peak_bytes: int
    twice_bytes: int
    crashes: bool = False
    time: PointTime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerChoice:
    """What a sweep tells of one layer. ``best``: the smallest prefetch for which none of its copies is waited for and
    no two copies of a tensor live; None where there is no such. Then ``punctual`` is the smallest for which none is
    waited for, with the bytes held twice, and ``single`` that with the least wait in microseconds among those that hold
    nothing twice; None where no prefetch does that either."""

    layer: str
    best: int | None
    punctual: tuple[int, int] | None
    single: tuple[int, float] | None


def best_overall(points: Iterable[Point]) -> Point | None:
    """The least time of a step, where a difference of 0.1 % (NOISE) is none; among those the lowest peak; among those
    the smallest prefetch. None where all crash, or no card is given."""
    timed = [(point.time.step_us, point) for point in points if point.time is not None and not point.crashes]
    least_us = min((step_us for step_us, _ in timed), default=0.0)
    near = [point for step_us, point in timed if step_us <= least_us * (1 + NOISE)]
    return min(near, key=lambda point: (point.peak_bytes, point.prefetch), default=None)


def lowest(points: Sequence[Point]) -> Point:
    """The lowest peak of those that MindSpore can compile."""
    return min((point for point in points if not point.crashes), key=lambda point: point.peak_bytes, default=points[0])


def best_of_layers(points: Iterable[Point]) -> tuple[LayerChoice, ...]:
    """In the order in which the points name the layers."""
    of_layer: dict[str, list[tuple[int, LayerCopies]]] = {}
    for point in sorted(points, key=lambda point: point.prefetch):
        for copies in point.time.layers if point.time is not None and not point.crashes else ():
            of_layer.setdefault(copies.layer, []).append((point.prefetch, copies))
    return tuple(_choice(layer, tried) for layer, tried in of_layer.items())


def _choice(layer: str, tried: Sequence[tuple[int, LayerCopies]]) -> LayerChoice:
    punctual = [(prefetch, copies.twice_bytes) for prefetch, copies in tried if not copies.is_late]
    single = [(prefetch, copies.late_us) for prefetch, copies in tried if not copies.twice_bytes]
    return LayerChoice(
        layer=layer,
        best=next((prefetch for prefetch, twice_bytes in punctual if not twice_bytes), None),
        punctual=punctual[0] if punctual else None,
        single=min(single, key=lambda item: item[1], default=None),
    )
