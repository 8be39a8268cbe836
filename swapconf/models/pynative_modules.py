"""MODEL SETTINGS -> MODULES: what can be named in each layer of a PyNative model, where the catalog knows the model.

Made by scripts/build_pynative_modules.py from the real models, one file a family and release of mindformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from swapconf.upstream.versions import EXCLUDE_BY_PATH, PYNATIVE, reached

FAMILIES = ("deepseek_v3", "deepseek_v4", "qwen3")
CLASS = "class"  # in a tree: functions of a cell's class. A word of Python, so no name of a cell


@dataclass(frozen=True, slots=True)
class LayerModules:
    """What can be named in one layer of a PyNative model: dotted paths of its cells, and of functions in them.

    ``fixed``: those of them that the class of a cell has, in whose place MindSpore lets no cell be put.
    ``has_communication``: of a real run; the catalog is made on one card, where no operator communicates.
    """

    cells: frozenset[str]
    functions: frozenset[str]
    fixed: frozenset[str] = frozenset()
    has_communication: bool = True


Known = Callable[[int], LayerModules | None]


def unknown(_layer: int) -> None:
    """Of no layer it is known what can be named in it."""


def known_modules(model: Mapping[str, object], num_layers: int | None, mindformers: str) -> Known:
    """What the layers of a model have. ``model``: the YAML's section; ``mindformers``: the version that reads it, one
    before PyNative stands for the first with it. Layers are numbered as in `swap` and `recompute`: those for
    multi-token prediction come last."""
    family = str(model.get("model_type"))
    if family not in FAMILIES or num_layers is None:
        return unknown
    release = EXCLUDE_BY_PATH if reached(mindformers, EXCLUDE_BY_PATH) else PYNATIVE
    catalog = _catalog(family, release)
    kinds = _kinds(catalog, model)
    if kinds is None:
        return unknown
    places, kind_of = kinds, _by_layer(kinds, model, num_layers)
    if kind_of is None:
        return unknown

    def known(layer: int) -> LayerModules | None:
        place = places.get(kind_of(layer))
        return None if place is None else _modules(family, release, place)

    return known


def _kinds(catalog: Mapping[str, Any], model: Mapping[str, object]) -> Mapping[str, int] | None:
    """The places of the trees of a model's layers; None where more than one setting is none that is known alone."""
    unlike = [key for key, values in catalog["plain"].items() if not _is_among(model.get(key), values)]
    if not unlike:
        return dict(catalog["layers"])
    for one in catalog["changed"]:
        if unlike == [one["setting"]] and _is_among(model.get(one["setting"]), [one["value"]]):
            return dict(one["layers"])
    return None


def _is_among(value: object, values: list[object]) -> bool:
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


def _by_layer(places: Mapping[str, int], model: Mapping[str, object], num_layers: int) -> Callable[[int], str] | None:
    """The kind of a layer; None where the YAML does not tell it."""
    if any(" " in kind for kind in places):  # with how it compresses: DeepSeek-V4, which has experts in every layer
        ratios = model.get("compress_ratios")
        if not isinstance(ratios, list) or len(ratios) < num_layers:
            return None
        return lambda layer: f"{_kind(layer, num_layers, 0)} {ratios[layer] if layer < len(ratios) else None}"
    dense = _num_dense(places=places, model=model)
    return None if dense is None else lambda layer: _kind(layer, num_layers, dense)


def _kind(layer: int, num_layers: int, num_dense: int) -> str:
    return "mtp" if layer >= num_layers else "dense" if layer < num_dense else "experts"


def _num_dense(places: Mapping[str, int], model: Mapping[str, object]) -> int | None:
    """The layers before the first with experts; None where the YAML does not tell it so."""
    if "experts" not in places:
        return 10**9
    first = model.get("first_k_dense_replace")
    is_told = isinstance(first, int) and not isinstance(first, bool) and model.get("moe_layer_freq") in (None, 1)
    return first if is_told and isinstance(first, int) else None


@cache
def _catalog(family: str, release: str) -> Mapping[str, Any]:
    text = (files("swapconf.models") / "pynative" / release / f"{family}.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


@cache
def _modules(family: str, release: str, place: int) -> LayerModules:
    found = set(_paths(_catalog(family, release)["trees"][place], ""))
    return LayerModules(
        cells=frozenset(path for path, kind in found if kind == "cell"),
        functions=frozenset(path for path, kind in found if kind != "cell"),
        fixed=frozenset(path for path, kind in found if kind == CLASS),
        has_communication=False,
    )


def _paths(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Each with its kind: "cell", or for functions "" and CLASS."""
    for name, below in tree.items():
        if name in ("", CLASS):
            yield from ((prefix + function, name) for function in below.split())
        else:
            yield prefix + name, "cell"
            yield from _paths(below, f"{prefix}{name}.")
