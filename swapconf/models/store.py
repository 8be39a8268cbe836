"""CATALOG FILES -> FAMILY: ``families.json`` tells the families apart, ``<family>.json`` holds one of them.

The files are written by ``scripts/build_families.py`` from the real cells and shipped with the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from swapconf.models.family import Family, FamilyVariant, Layout, Setting, Switch
from swapconf.models.network import LayerTemplate, Operator


@cache
def index() -> Mapping[str, Mapping[str, Any]]:
    """By family: ``legacy`` and the names under which a YAML may ask for it."""
    families: Mapping[str, Mapping[str, Any]] = _read("families.json")["families"]
    return families


@cache
def load(family: str) -> Family:
    """The family's data. Raises KeyError if the catalog has no such family."""
    if family not in index():
        raise KeyError(f"the catalog has no family {family!r}, only {', '.join(index())}")
    data = _read(f"{family}.json")
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
            FamilyVariant(
                when=tuple(item["when"]),
                templates={name: _template(name, template) for name, template in item["templates"].items()},
            )
            for item in data["variants"]
        ),
        made_with=data["made_with"]["mindformers"],
    )


def _read(name: str) -> Any:
    return json.loads((Path(__file__).with_name("families") / name).read_text(encoding="utf-8"))


def _layout(data: Mapping[str, Any]) -> Layout:
    settings = {
        name: Setting(keys=tuple(item["keys"]), default=item["default"])
        for name, item in data.items()
        if name != "templates"
    }
    return Layout(templates=tuple(data["templates"]), **settings)


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
