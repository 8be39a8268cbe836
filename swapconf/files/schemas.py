"""NAME -> SCHEMA, VALUE + SCHEMA -> MISFITS: our JSON Schemas, and what of a value does not fit one.

Of draft 7, what our schemas use. ``jsonschema``, with which the tests compare, knows all of it, but importing it takes
a third of a check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

_SCHEMAS = Path(__file__).with_name("schema")
# Keywords that nothing has to fit: what stands beside another one that reads it, and what people and editors read.
_ASIDE = frozenset(
    {"$schema", "title", "description", "default", "examples", "definitions", "then", "x-expected"}
    | {"x-unit", "x-description-zh"}
)

Place: TypeAlias = "tuple[str | int, ...]"  # keys and indices from the top of a value
Rule: TypeAlias = "dict[str, Any]"  # a schema, or a part of one


@dataclass(frozen=True, slots=True)
class Misfit:
    """A part of a value that does not fit.

    Attributes:
        place: Where it is.
        value: The part itself.
        keyword: What it does not fit; ``limit`` stands behind it in ``rule``. Of ``required``, ``limit`` is the key
            that is missing; of ``additionalProperties``, the keys that the rule does not know.
    """

    place: Place
    value: Any
    keyword: str
    limit: Any
    rule: Rule


def schema(name: str) -> dict[str, Any]:
    """One of our schemas, read anew: the caller may change it."""
    loaded: dict[str, Any] = json.loads((_SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return loaded


@cache
def _kept(name: str) -> dict[str, Any]:
    return schema(name)


def misfits(name: str, value: Any) -> Iterator[Misfit]:
    """What does not fit one of our schemas, in the order of the schema. Of several choices, what fits none of them."""
    return _misfits(value, _kept(name), _kept(name), ())


def fits(name: str, value: Any, rule: Rule) -> bool:
    """Whether a value fits a part of one of our schemas."""
    return not any(_misfits(value, rule, _kept(name), ()))


def _misfits(value: Any, rule: Rule, whole: Rule, place: Place) -> Iterator[Misfit]:
    while "$ref" in rule:  # what stands beside it does not count
        rule = whole["definitions"][rule["$ref"].removeprefix("#/definitions/")]
    for keyword in rule:
        if keyword in _FITS:
            if not _FITS[keyword](value, rule[keyword]):
                yield Misfit(place, value, keyword, rule[keyword], rule)
        elif keyword in _OF_KEYS:
            yield from _of_keys(value, keyword, rule, whole, place) if isinstance(value, dict) else ()
        elif keyword not in _ASIDE:
            yield from _OTHERS[keyword](value, rule, whole, place)


def _of_keys(value: dict[str, Any], keyword: str, rule: Rule, whole: Rule, place: Place) -> Iterator[Misfit]:
    if keyword == "required":
        yield from (Misfit(place, value, keyword, key, rule) for key in rule[keyword] if key not in value)
        return
    parts = _OF_KEYS[keyword](value, rule)
    if parts and rule[keyword] is False:
        yield Misfit(place, value, keyword, [key for key, _ in parts], rule)
        return
    for key, part in parts:
        yield from _misfits(value[key], part, whole, (*place, key))


def _known(value: dict[str, Any], rule: Rule) -> list[tuple[str, Any]]:
    return [(key, part) for key, part in rule["properties"].items() if key in value]


def _alike(value: dict[str, Any], rule: Rule) -> list[tuple[str, Any]]:
    patterns = rule.get("patternProperties", {})
    return [(key, part) for pattern, part in patterns.items() for key in value if re.search(pattern, key)]


def _others(value: dict[str, Any], rule: Rule) -> list[tuple[str, Any]]:
    known = {*rule.get("properties", ()), *(key for key, _ in _alike(value, rule))}
    return [(key, rule["additionalProperties"]) for key in value if key not in known]


def _of_choices(value: Any, rule: Rule, whole: Rule, place: Place) -> Iterator[Misfit]:
    choices = [list(_misfits(value, choice, whole, place)) for choice in rule["anyOf"]]
    return chain.from_iterable(choices if all(choices) else ())


def _of_condition(value: Any, rule: Rule, whole: Rule, place: Place) -> Iterator[Misfit]:
    holds = not any(_misfits(value, rule["if"], whole, place))
    return _misfits(value, rule["then"], whole, place) if holds else iter(())


def _of_items(value: Any, rule: Rule, whole: Rule, place: Place) -> Iterator[Misfit]:
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from _misfits(item, rule["items"], whole, (*place, index))


_OTHERS = {"anyOf": _of_choices, "if": _of_condition, "items": _of_items}
# By keyword, the keys of a value that it is about, and what each must fit.
_OF_KEYS: dict[str, Callable[[dict[str, Any], Rule], list[tuple[str, Any]]]] = {
    "required": lambda _value, _rule: [],
    "properties": _known,
    "patternProperties": _alike,
    "additionalProperties": _others,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_IS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),  # 1.0 is one
}

_FITS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, kinds: any(_IS[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds)),
    "enum": lambda value, values: value in values,
    "minimum": lambda value, least: not (_is_number(value) and value < least),
    "maximum": lambda value, most: not (_is_number(value) and value > most),
    "exclusiveMinimum": lambda value, bound: not (_is_number(value) and value <= bound),
    "minLength": lambda value, least: not (isinstance(value, str) and len(value) < least),
    "minItems": lambda value, least: not (isinstance(value, list) and len(value) < least),
}
