"""STAGE + OFFERS -> CHOSEN: from which runs, there or only expected, the trace of a stage can be composed.

Nothing of a trace is looked at, so that it is known before a run whether it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.repeated import repeated
from swapconf.dryrun.composing.stage import Stage, check_alike
from swapconf.words.phrases import phrase

_NONE = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A run of a stage.

    Attributes:
        micro_batches: In its step; a folded run has fewer than its YAML.
        of_rows: Layers by row of the stage; () for all of it. A part of a fold has fewer.
    """

    stage: Stage
    micro_batches: int
    of_rows: tuple[int, ...] = ()

    @property
    def in_flight(self) -> int:
        return self.stage.in_flight(self.micro_batches)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Layers by row. Raises CannotCompose."""
        return self.of_rows or self.stage.lengths


AnOffer = TypeVar("AnOffer", bound=Offer)


def chosen(stage: Stage, offers: Sequence[AnOffer], count: int) -> tuple[AnOffer, ...]:
    """One that has as many layers, or two that have fewer, the smaller one first. Those that are not like the stage are
    left alone. ``count``: micro-batches of the step.

    Raises CannotCompose: this stage has to be run, for the reason in its text.
    """
    alike, why = [], None
    for offer in [offer for offer in offers if offer.stage.role is stage.role] or offers:
        try:
            check_alike(offer.stage, stage)
            repeated(offer.in_flight, offer.micro_batches, stage.in_flight(count), count, stage.role.last_pairs)
            alike.append(offer)
        except CannotCompose as reason:
            why = reason
    if not alike:
        raise why or CannotCompose(phrase("there is no run to compose it from"))
    wanted = stage.lengths
    alike.sort(key=lambda offer: offer.lengths)
    full = [offer for offer in alike if offer.lengths == wanted]
    if full:
        return (min(full, key=lambda offer: _distance(offer, stage, count)),)
    return _pair(alike, wanted, stage, count)


def _distance(offer: Offer, stage: Stage, count: int) -> tuple[int, int]:
    """How far the offer is from what is asked for: micro-batches in flight, and in all."""
    flight = offer.in_flight - stage.in_flight(count)
    return abs(flight), abs(offer.micro_batches - count)


def _pair(alike: Sequence[AnOffer], wanted: Sequence[int], stage: Stage, count: int) -> tuple[AnOffer, AnOffer]:
    """Two with fewer layers in one row: the largest ones that are a whole number of periods away. Raises
    CannotCompose."""
    pairs = []
    for small, big in product(alike, repeat=2):
        row = _row_between(small, big, wanted)
        if row != _NONE:
            one, two = small.lengths[row], big.lengths[row]
            key = two - one, -two, _distance(big, stage, count), _distance(small, stage, count)
            pairs.append((key, (small, big)))
    if not pairs:
        raise CannotCompose(
            phrase("it takes a run with as many layers in the stage, or two with fewer, of which one has a layer more")
        )
    return min(pairs, key=lambda pair: pair[0])[1]


def _row_between(small: Offer, big: Offer, wanted: Sequence[int]) -> int:
    """The one row in which they have fewer layers, the one fewer than the other and a whole number of times; NONE where
    it is not so."""
    lengths = list(zip(small.lengths, big.lengths, strict=True))
    differing = [row for row, pair in enumerate(lengths) if {*pair} != {wanted[row]}]
    if len(differing) != 1:
        return _NONE
    (row,) = differing
    one, two = lengths[row]
    return row if one < two <= wanted[row] and not (wanted[row] - two) % (two - one) else _NONE
