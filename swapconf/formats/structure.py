"""NODES -> FINDINGS: the structural check of a section against its JSON Schema, told in the user's terms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import regex

from swapconf.errors import Finding, Origin, Severity
from swapconf.formats.nodes import Document, Node
from swapconf.phrases import mark, phrase

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Place: TypeAlias = "tuple[str | int, ...]"  # keys and indices from the top of a section

MAX_MISTAKES = 1_000  # in one section; a person corrects the first and asks again

_SCHEMAS = Path(__file__).with_name("schema")
_TRAPS = (  # PyYAML reads YAML 1.1: plain scalars that are not what they look like
    (regex.compile(r"[-+]?0[0-7_]+"), int, mark("YAML 1.1 reads `{text}` as octal, so it means {value}")),
    (regex.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+"), int, mark("YAML 1.1 reads `{text}` as base 60, so it means {value}")),
    (regex.compile(r"(?i)yes|no|on|off"), bool, mark("YAML 1.1 reads `{text}` as {value}")),
    (regex.compile(r"[-+]?\d+(\.\d*)?[eE]\d+"), str,
     mark("YAML 1.1 reads `{text}` as text: its numbers need 1.0e+3")),
)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a document: where it stands, and which of its places failed the structural check.

    ``written``: what the file calls a key that has another name there (mcore's ``cpu_offloading`` for ``swap``).
    """

    document: Document
    node: Node
    path: str
    written: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    broken: frozenset[Place] = field(default_factory=frozenset)
    around: frozenset[Place] = field(default_factory=frozenset)  # broken places, and those above them

    def at(self, place: Place) -> Node:
        node = self.node
        for step in place:
            node = node.items[step] if isinstance(step, int) else node.entries[step].value
        return node

    def origin(self, place: Place) -> Origin:
        return self.document.origin(self.at(place), self.name(place))

    def name(self, place: Place) -> str:
        steps = [self.written.get(str(step), step) if depth == 0 else step for depth, step in enumerate(place)]
        return self.path + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)

    def sound(self, *place: str | int) -> bool:
        """Whether nothing is broken at this place, above it or below it."""
        return self.whole(*place) and not any(place[:depth] in self.broken for depth in range(len(place)))

    def whole(self, *place: str | int) -> bool:
        """Whether nothing is broken at this place or below it."""
        return place not in self.around


@cache
def validator(name: str) -> Validator:
    """The draft-07 validator of one of our schemas."""
    from jsonschema.validators import Draft7Validator  # heavy; only when a section is there to be checked

    return Draft7Validator(schema(name))


def schema(name: str) -> dict[str, Any]:
    """One of our schemas, read anew: the caller may change it."""
    loaded: dict[str, Any] = json.loads((_SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return loaded


def check_section(blank: Section, schema_name: str) -> Section:
    """The section with a finding for each structural mistake; keys that are unknown break nothing else."""
    node = blank.node
    findings: list[Finding] = []
    broken: set[Place] = set()
    for error in _leaves(validator(schema_name).iter_errors(node.plain())):
        place: Place = tuple(error.absolute_path)
        findings.extend(islice(_explain(blank, error, place), MAX_MISTAKES - len(findings)))
        if len(findings) == MAX_MISTAKES:
            return _given_up(blank, findings)
        if error.validator != "additionalProperties":
            broken.add(place)
    for place, leaf in _scalars(node):
        if type(leaf.scalar) is float and leaf.scalar.is_integer() and place not in broken:
            message = phrase("expected a whole number, found {found}", found=leaf.scalar)
            findings.append(_finding(blank, place, "bad-type", message,
                                     phrase("write {value}", value=int(leaf.scalar))))
            broken.add(place)
        trap = _trap(leaf)
        if trap and place not in broken:
            severity = Severity.NOTE if isinstance(leaf.scalar, bool) else Severity.WARNING
            findings.append(_finding(blank, place, "yaml-trap", trap, phrase("write {value}", value=leaf.scalar),
                                     severity))
    around = frozenset(place[:depth] for place in broken for depth in range(len(place) + 1))
    return replace(blank, findings=tuple(findings), broken=frozenset(broken), around=around)


def _given_up(blank: Section, findings: list[Finding]) -> Section:
    """The section as an empty one: what was not looked at must not be used."""
    more = _finding(blank, (), "too-many-mistakes",
                    phrase("this section has {count} mistakes or more", count=len(findings)),
                    phrase("nothing else is said of it before they are corrected"))
    return replace(blank, node=Node("mapping", blank.node.line, blank.node.column), findings=(*findings, more))


def _leaves(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """Errors inside `then` belong to the user's value, not to the condition."""
    for error in errors:
        if error.context:
            yield from _leaves(error.context)
        else:
            yield error


def _explain(section: Section, error: ValidationError, place: Place) -> Iterator[Finding]:
    rule: dict[str, Any] = dict(cast("Any", error.schema))
    limit: Any = error.validator_value
    told = rule.get("x-expected")
    wanted = phrase(told) if told else phrase("another value")
    if error.validator == "additionalProperties":
        yield from _unknown_keys(section, list(rule.get("properties", {})), place)
    elif error.validator == "required":
        key = next(name for name in limit if f"'{name}'" in error.message)
        yield _finding(section, place, "missing-key", phrase("`{key}` is missing", key=key),
                       phrase("add `{key}:` with {expected}", key=key, expected=_expected(rule["properties"][key])))
    elif error.validator == "minimum":
        message = phrase("{value} is below {limit}", value=error.instance, limit=limit)
        yield _finding(section, place, "bad-value", message, phrase("give {expected}", expected=wanted))
    elif error.validator == "minItems":
        yield _finding(section, place, "bad-value", phrase("the list is empty"),
                       phrase("give {expected}", expected=wanted))
    else:
        node = section.at(place)
        message = phrase("expected {expected}, found {found}", expected=wanted, found=describe(node))
        yield _finding(section, place, "bad-type", message, _remedy(node, rule))


def _expected(rule: dict[str, Any]) -> str:
    """What a key takes, in words; only the entries of swap_config have required keys."""
    if "$ref" in rule:
        rule = _entry_rules()[rule["$ref"].rpartition("/")[2]]
    told = rule.get("x-expected")
    return phrase(told) if told else phrase("a value")


@cache
def _entry_rules() -> dict[str, Any]:
    rules: dict[str, Any] = schema("swap_config")["definitions"]
    return rules


def _unknown_keys(section: Section, known: list[str], place: Place) -> Iterator[Finding]:
    parent = section.at(place)
    for key, entry in parent.entries.items():
        if key in known:
            continue
        origin = section.document.key_origin(entry, section.name((*place, key)))
        close = get_close_matches(key, known, n=1)
        meant = phrase("`{key}` was probably meant; rename it", key=close[0]) if close else \
            phrase("known here: {keys}; remove it", keys=", ".join(known))
        # mindformers itself stops on an unknown key of a section, and ignores one in an entry
        severity = Severity.WARNING if place else Severity.ERROR
        yield Finding(origin=origin, rule="unknown-key", severity=severity,
                      message=phrase("unknown key `{key}`", key=key), hint=meant)


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


def _remedy(node: Node, expected: dict[str, Any]) -> str:
    kinds = expected.get("type", [])
    value = node.scalar
    trap = _trap(node)
    if trap:
        number = isinstance(value, str) and "integer" in kinds and float(value).is_integer()
        return phrase("{trap}; write {value}", trap=trap, value=int(float(str(value)))) if number else \
            phrase("{trap}; write the value plainly", trap=trap)
    if isinstance(value, str):
        word = value.strip()
        if word.lower() in ("true", "false") and "boolean" in kinds:
            return phrase("write {value} without quotes", value=word.capitalize())
        if word.lower() == "auto" and "integer" in kinds:
            return phrase("'Auto' means 1 in MindSpore; write 1")
        if word.lstrip("+-").isdigit() and "integer" in kinds:
            return phrase("write {value} without quotes", value=int(word))
        if word[:1] in "([" and "array" in kinds:
            return phrase("a Python tuple or quoted list is text in YAML; write [{items}]", items=word.strip("()[] "))
    if isinstance(value, bool):
        if "integer" in kinds:
            return phrase("True and False are not numbers here; write a whole number")
    elif isinstance(value, int):
        if "boolean" in kinds and value in (0, 1) and "array" not in kinds:
            return phrase("write {value}", value=bool(value))
        if "array" in kinds:
            return phrase("write [{value}]", value=value)
    return phrase("correct the value")


def _trap(node: Node) -> str:
    if node.text is None:
        return ""
    for pattern, kind, message in _TRAPS:
        if type(node.scalar) is kind and pattern.fullmatch(node.text):
            return phrase(message, text=node.text, value=node.scalar)
    return ""


def _scalars(node: Node, place: Place = ()) -> Iterator[tuple[Place, Node]]:
    if node.kind == "scalar":
        yield place, node
    for index, item in enumerate(node.items):
        yield from _scalars(item, (*place, index))
    for key, entry in node.entries.items():
        yield from _scalars(entry.value, (*place, key))


def _finding(section: Section, place: Place, rule: str, message: str, hint: str,
             severity: Severity = Severity.ERROR) -> Finding:
    return Finding(origin=section.origin(place), rule=rule, severity=severity, message=message, hint=hint)
