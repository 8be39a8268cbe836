"""VALUE -> HINT: what was probably meant by a value or a key that does not fit its schema, in the user's terms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from swapconf.config.dialects import GRAPH_SECTIONS
from swapconf.config.nodes import Node
from swapconf.files.schemas import schema, validator
from swapconf.words.lookalikes import in_ascii, told
from swapconf.words.phrases import mark, phrase

_TRAPS = (  # PyYAML reads YAML 1.1: plain scalars that are not what they look like
    (re.compile(r"[-+]?0[0-7_]+"), int, mark("YAML 1.1 reads `{text}` as octal, so it means {value}")),
    (re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+"), int, mark("YAML 1.1 reads `{text}` as base 60, so it means {value}")),
    (re.compile(r"(?i)yes|no|on|off"), bool, mark("YAML 1.1 reads `{text}` as {value}")),
    (re.compile(r"[-+]?\d+(\.\d*)?[eE]\d+"), str, mark("YAML 1.1 reads `{text}` as text: its numbers need 1.0e+3")),
)


# (section, key that stands there) -> the key that was meant, where no likeness of the names leads to it
_OTHER_NAMES = {
    ("pynative_swap", "swap"): "enable",
    ("pynative_recompute", "recompute"): "mode",
    ("pynative_recompute_comm", "recompute_comm"): "enable",
    ("swap_config", "enable"): "swap",
    ("pynative_recompute", "select_recompute"): "select_module",
    ("pynative_recompute", "enable"): "mode",
}
# (section, key) -> what to do about a key of what lies below mindformers, which gives it no name of its own. Source:
# mindformers 2.0.0 and 2.1.0, pynative/distributed/activation_checkpoint.py, and MindSpore 2.10.0, where recompute
# without reentrance is what `checkpoint_wrapper` stands on
_NOT_PASSED_ON = {
    ("pynative_recompute", "use_reentrant"): mark(
        "mindformers 2.0 and 2.1 let nobody choose it: they always recompute with use_reentrant False; remove it"
    )
}
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
_OWNERS = {"swap_config": "recompute_config", "recompute_config": "swap_config"}


def meant_key(key: str, known: list[str], schema_name: str, *, top: bool) -> str:
    """What to do about an unknown key. ``top``: it stands in the section itself, not in an entry of it."""
    other = _OTHER_NAMES.get((schema_name, key)) if top else None
    owner = _OWNERS.get(schema_name) if top else None
    if top and (schema_name, key) in _NOT_PASSED_ON:
        return phrase(_NOT_PASSED_ON[schema_name, key])
    if owner and key in schema(owner)["properties"]:
        return phrase("it belongs to `{section}`; move it there", section=owner)
    likely = other or likely_key(key, known)
    if likely is None and top and key in GRAPH_SECTIONS and schema_name in GRAPH_SECTIONS:
        return phrase("move it to the top level of the YAML")
    if likely is None:
        return phrase("known here: {keys}; remove it", keys=", ".join(known))
    strange = told(key)
    meant = phrase("`{key}` was probably meant; rename it", key=likely)
    return phrase("{strange}; {hint}", strange=strange, hint=meant) if strange else meant


def likely_key(key: str, known: Sequence[str]) -> str | None:
    """The known key that a name is nearly; None where it is none."""
    return _likely(in_ascii(key).strip().lower(), tuple(known))


@lru_cache(maxsize=4096)  # a millisecond each, and a document is read more than once
def _likely(key: str, known: tuple[str, ...]) -> str | None:
    close = get_close_matches(key, known, n=1)
    return close[0] if close else None


def likely_boolean(value: object) -> bool | None:
    """What a value that is none of True and False was probably meant to be; None where nobody knows."""
    if value in (0, 1):
        return bool(value)
    close = get_close_matches(str(value).strip().lower(), _BOOLEANS, n=1, cutoff=0.75)
    return _BOOLEANS[close[0]] if close else None


def describe(node: Node) -> str:
    """A value in words, short."""
    if node.kind == "mapping":
        return phrase("a mapping")
    if node.kind == "list":
        return phrase("a list")
    if node.scalar is None:
        return phrase("nothing")
    text = str(node.scalar) if len(str(node.scalar)) <= 40 else f"{str(node.scalar)[:40]}..."
    if isinstance(node.scalar, str):
        return phrase("the text '{text}'", text=text)
    return text


def remedy(node: Node, expected: dict[str, Any], schema_name: str) -> str:
    """What to write for a value of the wrong type. ``expected``: the part of the schema that it breaks."""
    value, kinds = node.scalar, expected.get("type", [])
    return (
        _of_word(str(value), expected.get("enum", ()))
        or (_of_lookalikes(value) if isinstance(value, str) else "")
        or _of_trap(node, kinds)
        or (_of_text(value.strip(), kinds, is_plain=node.text is not None) if isinstance(value, str) else "")
        or (_of_number(value, expected, schema_name) if isinstance(value, int) else "")
        or _expected(expected)
    )


def _of_word(text: str, words: Sequence[object]) -> str:
    close = get_close_matches(text.lower(), {str(word).lower(): word for word in words}, n=1)
    return phrase("write {value}", value=next(word for word in words if str(word).lower() == close[0])) if close else ""


def _of_lookalikes(text: str) -> str:
    strange = told(text)
    spaced = re.sub(r"([:,])(?=\S)", r"\1 ", in_ascii(text))
    return phrase("{strange}; write `{text}`", strange=strange, text=spaced) if strange else ""


def _of_trap(node: Node, kinds: Sequence[str]) -> str:
    trap, value = trap_of(node), node.scalar
    if not trap:
        return ""
    if isinstance(value, str) and "integer" in kinds and float(value).is_integer():
        return phrase("{trap}; write {value}", trap=trap, value=int(float(value)))
    return phrase("{trap}; write the value plainly", trap=trap)


def _of_text(word: str, kinds: Sequence[str], *, is_plain: bool) -> str:
    """Of a text that another kind of value was meant by. ``is_plain``: it stands without quotes."""
    if "boolean" in kinds and word.lower() in ("true", "false"):
        return phrase("write {value} without quotes", value=word.capitalize())
    if "boolean" in kinds and (meant := likely_boolean(word)) is not None:
        return phrase("write {value}", value=meant)
    if "integer" in kinds and word.lower() == "auto":
        return phrase("'Auto' means 1 in MindSpore; write 1")
    if "integer" in kinds and word.lstrip("+-").isdigit():
        if is_plain:  # 08, 09: octal digits are 0 to 7
            return phrase(
                "YAML 1.1 reads `{text}` as text, because a number that starts with 0 is octal; write {value}",
                text=word,
                value=int(word),
            )
        return phrase("write {value} without quotes", value=int(word))
    if "array" in kinds and word[:1] == "(" and ")" not in word:
        return phrase("a Python tuple is text in YAML, and between braces it ends at its comma; write a list in [ ]")
    if "array" in kinds and word[:1] in "([":
        return phrase("a Python tuple or quoted list is text in YAML; write [{items}]", items=word.strip("()[] "))
    return _of_numbers(word, kinds)


def _of_numbers(word: str, kinds: Sequence[str]) -> str:
    """Of several numbers, with something between them that makes them a text."""
    numbers = re.split(r"\s*[,;]\s*|\s+", word)
    if len(numbers) == 1 or not all(map(str.isdecimal, numbers)):
        return ""
    items = ", ".join(numbers)
    if "integer" in kinds:  # inside of a list
        return phrase("commas separate numbers; write {items}", items=items)
    return phrase("write [{value}]", value=items) if "array" in kinds else ""


def _of_number(value: int, expected: dict[str, Any], schema_name: str) -> str:
    """Of a whole number, or of True or False, where something else is expected."""
    kinds = expected.get("type", [])
    if isinstance(value, bool):
        return phrase("True and False are not numbers here; write a whole number") if "integer" in kinds else ""
    if "array" in kinds:
        whole = {**expected, "definitions": schema(schema_name).get("definitions", {})}  # its references lead there
        is_item = validator(schema_name).evolve(schema=whole).is_valid([value])
        return phrase("write [{value}]", value=value) if is_item else ""
    return phrase("write {value}", value=bool(value)) if "boolean" in kinds and value in (0, 1) else ""


def _expected(expected: dict[str, Any]) -> str:
    words = expected.get("x-expected")
    return phrase("give {expected}", expected=phrase(words)) if words else phrase("correct the value")


def plainly(node: Node) -> str:
    """What to write for a scalar that YAML 1.1 reads in its own way; both numbers, where either may be meant."""
    digits = re.sub("_", "", node.text or "")
    if type(node.scalar) is int and digits.lstrip("+-").isdigit() and int(digits) != node.scalar:
        return phrase("write {decimal} if that was meant, or {value}", decimal=int(digits), value=node.scalar)
    return phrase("write {value}", value=node.scalar)


def trap_of(node: Node) -> str:
    """What YAML 1.1 reads in a plain scalar, where that is not what it looks like; else ""."""
    if node.text is None:
        return ""
    for pattern, kind, message in _TRAPS:
        if type(node.scalar) is kind and pattern.fullmatch(node.text):
            return phrase(message, text=node.text, value=node.scalar)
    return ""
