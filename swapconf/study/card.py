"""MACHINE + CONFIG -> CARD: for which card, which CANN and which order of sums the workspace of kernels is told."""

from __future__ import annotations

from swapconf.config.config import Config
from swapconf.memory.cann.card import A2, Card
from swapconf.timing.cost import Machine
from swapconf.words.phrases import joined, phrase
from swapconf.words.units import MIB


def card_of(machine: Machine | None, config: Config | None) -> Card:
    """``machine``: None for an Ascend 910B with 24 cores and the newest CANN that is known. ``config``: None where it
    is not known."""
    deterministic = None if config is None else config.runtime.deterministic
    if machine is None:
        return Card(deterministic=deterministic)
    figures = machine.hardware.card
    return Card(
        cann=machine.cann or A2.cann,
        cube_cores=int(figures["cube_cores"].value),
        cache_bytes=int(figures["cache_mib"].value * MIB),
        deterministic=deterministic,
    )


def words(card: Card) -> str:
    """``CANN 9.0, 24 cube cores, sums in any order``."""
    order = {
        True: phrase("sums in a fixed order"),
        False: phrase("sums in any order"),
        None: phrase("the larger of sums in a fixed and in any order"),
    }[card.deterministic]
    return joined(
        ", ",
        [
            phrase("CANN {version}", version=card.cann),
            phrase("an Atlas A2 with {cores} cube cores", cores=card.cube_cores),
            order,
        ],
    )
