"""What is said of a migration whichever way it goes: the items that both directions have, and layers in words."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Config, RecomputeConfig, SwapOff
from swapconf.config.layer_ranges import spell
from swapconf.migrate.report import Item, carried, to_check
from swapconf.words.findings import Origin
from swapconf.words.phrases import mark, phrase, plural

RECOMPUTED = mark("recompute of '{path}' in {layers}")
NOT_RECOMPUTED = mark("'{path}' is not recomputed in {layers}")


def in_words(layers: frozenset[int]) -> str:
    if not layers:
        return phrase("no layer")
    return plural(len(layers), "layer {layers}", "layers {layers}", layers=", ".join(spell(layers)))


def rest_stays(made: Config, why: str, remedy: str) -> Iterator[Item]:
    """Of all but swap and recompute, where ``made`` asks for any."""
    if made.swap != SwapOff() or made.recompute != RecomputeConfig():
        yield to_check(Origin(file=made.file), why, remedy)


def recomputed(origin: Origin, layers: frozenset[int]) -> Item:
    return carried(origin, phrase("recompute of {layers}", layers=in_words(layers)))


def swapped(origin: Origin, layers: frozenset[int], path: str = "") -> Item:
    """``path``: "" for whole layers."""
    if not path:
        return carried(origin, phrase("swap of {layers}", layers=in_words(layers)))
    return carried(origin, phrase("swap of {path} in {layers}", path=f"'{path}'", layers=in_words(layers)))


def cells_are_excluded(origin: Origin, remedy: str) -> Item:
    return to_check(
        origin,
        phrase("graph mode excludes single operators only; PyNative excludes a cell with all that is in it"),
        remedy,
    )
