"""SCHEMAS + CATALOG -> ONE SCHEMA: what an editor needs to complete, explain and check a training YAML.

The schemas that ``swapconf check`` uses know keys and types. Here the operators of each family are added, behind a
condition on the model that the YAML names, so that ``op_name:`` offers the operators of that model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from swapconf.config.dialects import GRAPH_SECTIONS, MCORE_SWAP_KEYS, PYNATIVE_SECTIONS
from swapconf.decide.patterns import escaped
from swapconf.files.schemas import schema
from swapconf.models import catalog
from swapconf.models.network import COMMUNICATION, Operator
from swapconf.models.store import index

SECTIONS = GRAPH_SECTIONS
_PYNATIVE = "pynative_"  # before the names of the schemas of PyNative's sections
NAMES = ("training", *SECTIONS)


def editor_schema(name: str) -> dict[str, Any]:
    """One of NAMES as a JSON Schema (draft 7) that refers to no other file."""
    if name != "training":
        return schema(name)
    whole = schema("training")
    operators = {
        f"{family}_{kind}": part for family in catalog.families() for kind, part in _operator_schemas(family).items()
    }
    sections = (*SECTIONS, *(f"{_PYNATIVE}{section}" for section in PYNATIVE_SECTIONS))
    moved = {section: _moved(schema(section), section) for section in sections}
    return {
        **whole,
        "properties": _within(whole["properties"]),
        "definitions": {**moved, **operators},
        "allOf": [
            *(
                {"if": _is_family(family), "then": {"properties": _completions(family)}}
                for family in catalog.families()
            ),
            _of_another_family(),
            _of_pynative(),
        ],
    }


def _within(part: Any) -> Any:
    """A schema that refers to definitions of the same file, not to files beside it."""
    if not isinstance(part, dict):
        return part
    return {
        key: f"#/definitions/{value.removesuffix('.schema.json')}" if key == "$ref" else _within(value)
        for key, value in part.items()
    }


def _moved(part: Any, section: str) -> Any:
    r"""A schema below ``#/definitions/SECTION``, its references with it.

    Without examples that hold a backslash: yaml-language-server 1.25 offers them as text that is no YAML
    (``"attention\\\.wq"``). Values of an enum, as the families have them, it writes well.
    """
    if isinstance(part, list):
        return [_moved(item, section) for item in part]
    if not isinstance(part, dict):
        return part
    moved = {
        key: _moved(value, section)
        for key, value in part.items()
        if key != "$schema" and not (key == "examples" and "\\" in json.dumps(value))
    }
    if "$ref" in moved:
        moved["$ref"] = moved["$ref"].replace("#/definitions/", f"#/definitions/{section}/definitions/")
    return moved


def _is_family(family: str) -> dict[str, Any]:
    """The condition that a YAML names this family, as ``catalog.identify`` reads it.

    By patterns: while it completes, yaml-language-server 1.25 takes the start of an enum's value for the value, so that
    ``qwen3`` is a ``qwen3_moe``, too.
    """
    known: Mapping[str, Any] = index()[family]
    if known["legacy"]:
        named = [{"properties": {"type": _one_of(known["config_types"])}, "required": ["type"]}]
    else:
        classes = _one_of(known["architectures"])
        named = [
            {"properties": {"model_type": _one_of(known["model_types"])}, "required": ["model_type"]},
            {
                "properties": {
                    "architectures": {"anyOf": [classes, {"type": "array", "minItems": 1, "items": classes}]}
                },
                "required": ["architectures"],
                "not": {"required": ["model_type"]},
            },
        ]
    model = {"properties": {"model_config": {"anyOf": named}}, "required": ["model_config"]}
    return {"properties": {"model": model}, "required": ["model"]}


def _one_of(names: list[str]) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^({'|'.join(names)})$"}


def _of_another_family() -> dict[str, Any]:
    """For a model that the catalog does not know: what flash attention is called in those that it knows."""
    names: dict[str, str] = {}
    for family in catalog.families():
        names.setdefault(catalog.load(family).flash_attention, f"flash attention of {family}")
    entry = _entry(
        {"anyOf": [{"enum": list(names), "enumDescriptions": list(names.values())}, {"type": ["string", "array"]}]}
    )
    return {
        "if": {"not": {"anyOf": [_is_family(family) for family in catalog.families()]}},
        "then": {"properties": {"swap_config": entry}},
    }


def _of_pynative() -> dict[str, Any]:
    """The sections of PyNative, in a YAML without those of graph mode."""
    return {
        "if": {"not": {"anyOf": [{"required": [section]} for section in GRAPH_SECTIONS]}},
        "then": {
            "properties": {section: {"$ref": f"#/definitions/{_PYNATIVE}{section}"} for section in PYNATIVE_SECTIONS}
        },
    }


def _entry(op_name: dict[str, Any]) -> dict[str, Any]:
    """swap_config whose entries of op_swap, in a list or alone, have this ``op_name``."""
    entry = {"properties": {"op_name": op_name}}
    return {"properties": {"op_swap": {"items": entry, "if": {"type": "object"}, "then": entry}}}


def _completions(family: str) -> dict[str, Any]:
    """What is offered for the model's operators; nothing is refused because of it."""
    described = schema("recompute_config")["properties"]
    keys = {
        key: {
            "$ref": f"#/definitions/{family}_{'communication' if 'comm' in key else 'operators'}",
            "description": described[key]["description"],
        }
        for key in described
        if key.startswith("select_")
    }
    entry = _entry({"$ref": f"#/definitions/{family}_op_name"})
    return {
        "swap_config": entry,
        "recompute_config": {"properties": keys},
        **({} if index()[family]["legacy"] else {"model": _mcore(entry)}),
    }


def _mcore(entry: dict[str, Any]) -> dict[str, Any]:
    """The spellings of swap_config's keys in ``model.model_config``."""
    keys = {
        name: {"$ref": f"#/definitions/swap_config/properties/{key}"}
        for key, names in MCORE_SWAP_KEYS.items()
        for name in names
    }
    return {
        "properties": {
            "model_config": {
                "properties": {**keys, "op_swap": {"allOf": [keys["op_swap"], entry["properties"]["op_swap"]]}}
            }
        }
    }


def _operator_schemas(family: str) -> dict[str, Any]:
    """``op_name``: values that swap something; ``operators``, ``communication``: keys of select_recompute and so on."""
    swapped = _offered(family, lambda operator: operator.saved is not False and operator.executed is not False)
    name = {"anyOf": [{"enum": list(swapped), "enumDescriptions": list(swapped.values())}, {"type": "string"}]}
    recomputed = _offered(family, lambda operator: operator.executed is not False)
    communicating = _offered(family, lambda operator: operator.type in COMMUNICATION, cells=False)
    return {
        "op_name": {"anyOf": [*name["anyOf"], {"type": "array", "items": name}]},
        "operators": _keys(recomputed),
        "communication": _keys(communicating),
    }


def _keys(offered: Mapping[str, str]) -> dict[str, Any]:
    """Operators as keys of a mapping. Those with a backslash are snippets, as completed keys would lose it."""
    selection = {"$ref": "#/definitions/recompute_config/definitions/selection"}
    snippets = [
        {"label": pattern, "description": text, "body": {pattern: True}}
        for pattern, text in offered.items()
        if "\\" in pattern
    ]
    return {
        "properties": {pattern: selection for pattern in offered if "\\" not in pattern},
        "defaultSnippets": snippets,
    }


def _offered(family: str, wanted: Callable[[Operator], bool], *, cells: bool = True) -> dict[str, str]:
    """Patterns of operators, each with what it is: cells, and the primitives that are wanted."""
    return {
        escaped(operator.path): f"{operator.type}, a {operator.kind}"
        for operator in _operators(family)
        if (cells if operator.kind == "cell" else wanted(operator))
    }


@cache
def _operators(family: str) -> tuple[Operator, ...]:
    """The operators of every variant of a family, each path once, cells before primitives."""
    found: dict[str, Operator] = {}
    for operator in _every(family):
        found.setdefault(operator.path, operator)
    return tuple(sorted(found.values(), key=lambda operator: operator.kind != "cell"))


def _every(family: str) -> Iterator[Operator]:
    for variant in catalog.load(family).variants:
        for template in variant.templates.values():
            yield from template.operators
