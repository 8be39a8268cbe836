"""CATALOG FILE + CATALOG FILE -> DELTA: what a release has otherwise; ``swapconf.models.deltas`` applies it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from swapconf.models.deltas import applied

Row = dict[str, Any]
Site = tuple[int, str]  # number of a variant, name of a template


def delta(family: Mapping[str, Any], release: Mapping[str, Any]) -> Row:
    """Raises ValueError where the release has other variants or templates, which a delta cannot say."""
    if _shape(family) != _shape(release):
        raise ValueError(f"{family['family']}: other variants, templates or values of switches")
    found = {
        "schema": family["schema"],
        "family": family["family"],
        "made_with": release["made_with"],
        **{key: value for key, value in release.items() if key != "variants" and value != family.get(key)},
        "operators": _rows(family, release),
    }
    if applied(family, found) != release:
        raise ValueError(f"{family['family']}: the delta does not give the release again")
    return found


def _shape(family: Mapping[str, Any]) -> list[Any]:
    return [
        (variant["when"], {name: template["cell"] for name, template in variant["templates"].items()})
        for variant in family["variants"]
    ]


def _rows(family: Mapping[str, Any], release: Mapping[str, Any]) -> list[Row]:
    """Each row once, with the sites that it holds for; in the order of the first template that has it."""
    sites: dict[str, tuple[Row, list[Site]]] = {}
    everywhere = [(number, name) for number, variant in enumerate(family["variants"]) for name in variant["templates"]]
    for number, name in everywhere:
        before, after = (one["variants"][number]["templates"][name]["operators"] for one in (family, release))
        for row in _changes(before, after):
            sites.setdefault(repr(row), (row, []))[1].append((number, name))
    return [{**row, **place} for row, held in sites.values() for place in _places(held, everywhere)]


def _places(held: list[Site], everywhere: list[Site]) -> Iterator[Row]:
    """``templates`` and ``variants`` that name these sites, left out where they are all there are."""
    if set(held) == set(everywhere):
        yield {}
        return
    all_variants = sorted({number for number, _ in everywhere})
    variants_of = {name: [number for number, other in held if other == name] for _, name in held}
    for variants, names in groupby(
        sorted(variants_of, key=lambda name: variants_of[name]), key=variants_of.__getitem__
    ):
        yield {"templates": list(names)} | ({} if variants == all_variants else {"variants": variants})


def _changes(before: list[Row], after: list[Row]) -> Iterator[Row]:
    old = {row["path"]: row for row in before}
    kept = _in_both(list(old), [row["path"] for row in after])
    here = {row["path"] for row in after}
    yield from ({"path": path, "gone": True} for path in old if path not in here)
    previous = ""
    for row in after:
        if row["path"] not in kept:
            yield {**row, "after": previous}
        elif row != old[row["path"]]:
            yield row
        previous = row["path"]


def _in_both(old: list[str], new: list[str]) -> set[str]:
    """Paths that both have in one order."""
    blocks = SequenceMatcher(a=old, b=new, autojunk=False).get_matching_blocks()
    return {path for block in blocks for path in old[block.a : block.a + block.size]}
