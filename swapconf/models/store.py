"""CATALOG FILES -> FAMILY: ``families.json`` tells the families apart, ``<family>.json`` holds one of them.

It holds the family as in the release that most was measured with; ``<release>/<family>.json`` says what another
mindformers has otherwise. The files are written by ``scripts/build_families.py`` from the real cells and shipped with
the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from swapconf.models import deltas
from swapconf.models.family import Family, FamilyVariant, Layout, Setting, Switch
from swapconf.models.network import LayerTemplate, Operator
from swapconf.upstream.releases import REFERENCE
from swapconf.upstream.versions import reached, release

_FOLDER = Path(__file__).with_name("families")


@cache
def index() -> Mapping[str, Mapping[str, Any]]:
    """By family: ``legacy`` and the names under which a YAML may ask for it."""
    families: Mapping[str, Mapping[str, Any]] = _read("families.json")["families"]
    return families


def load(family: str, mindformers: str = REFERENCE["mindformers"]) -> Family:
    """The family as in a mindformers. Raises KeyError if the catalog has no such family."""
    if family not in index():
        raise KeyError(f"the catalog has no family {family!r}, only {', '.join(index())}")
    return _load(family, chosen(releases(family), mindformers))


@cache
def releases(family: str) -> tuple[str, ...]:
    """The releases of mindformers whose cells were read for a family, from old to new."""
    others = (file.parent.name for file in _FOLDER.glob(f"*/{family}.json"))
    return tuple(sorted((REFERENCE["mindformers"], *others), key=lambda version: release(version) or ()))


def chosen(candidates: tuple[str, ...], mindformers: str) -> str:
    """Of releases from old to new, the one that stands for a version: the nearest not newer, else the first."""
    return next((one for one in reversed(candidates) if reached(mindformers, one)), candidates[0])


@cache
def _load(family: str, mindformers: str) -> Family:
    data = _read(f"{family}.json")
    if mindformers != REFERENCE["mindformers"]:
        data = deltas.applied(data, _read(f"{mindformers}/{family}.json"))
    return Family(
        name=data["family"],
        title=data["title"],
        legacy=data["legacy"],
        flash_attention=data["flash_attention"],
        switches={
            name: Switch(keys=tuple(item["keys"]), default=item["default"], kind=item["kind"])
            for name, item in data["switches"].items()
        },
        layout=_layout(data["layout"]),
        variants=tuple(
            FamilyVariant(when=tuple(item["when"]), read=partial(_templates, item["templates"]))
            for item in data["variants"]
        ),
        made_with=data["made_with"],
    )


def _read(name: str) -> Any:
    return json.loads((_FOLDER / name).read_text(encoding="utf-8"))


def _layout(data: Mapping[str, Any]) -> Layout:
    settings = {
        name: Setting(keys=tuple(item["keys"]), default=item["default"])
        for name, item in data.items()
        if name != "templates"
    }
    return Layout(templates=tuple(data["templates"]), **settings)


def _templates(data: Mapping[str, Any]) -> dict[str, LayerTemplate]:
    return {name: _template(name, template) for name, template in data.items()}


def _template(name: str, data: Mapping[str, Any]) -> LayerTemplate:
    return LayerTemplate(name=name, cell=data["cell"], operators=tuple(map(_operator, data["operators"])))


def _operator(data: Mapping[str, Any]) -> Operator:
    return Operator(
        path=data["path"],
        kind="cell" if "cell" in data else "primitive",
        type=data["cell"] if "cell" in data else data["primitive"],
        executed=data.get("executed"),
        saved=data.get("saved"),
        preset_recompute=data.get("preset_recompute"),
        consumers=tuple(data.get("consumers", ())),
    )
