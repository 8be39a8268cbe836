"""NODES -> FINDINGS: the structural check of a section against its JSON Schema, told in the user's terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from swapconf.config.nodes import Document, Entry, Node
from swapconf.config.remedies import describe, likely_boolean, likely_key, meant_key, plainly, remedy, trap_of
from swapconf.files.schemas import schema, validator
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.lookalikes import indented_by
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    from jsonschema import ValidationError

Place: TypeAlias = "tuple[str | int, ...]"  # keys and indices from the top of a section

MAX_MISTAKES = 1_000  # in one section; a person corrects the first and asks again


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

    def is_on(self, key: str) -> bool:
        """Whether a switch is True, or surely meant so: what it switches is then checked in the same go."""
        given = self.node.get(key)
        if given is None:
            return False
        return given.scalar is True if self.sound(key) else likely_boolean(given.scalar) is True

    def whole(self, *place: str | int) -> bool:
        """Whether nothing is broken at this place or below it."""
        return place not in self.around


def check_section(blank: Section, schema_name: str) -> Section:
    """The section with a finding for each structural mistake; keys that are unknown break nothing else."""
    node = blank.node
    findings: list[Finding] = []
    broken: set[Place] = set()
    for error in _leaves(validator(schema_name).iter_errors(node.plain())):
        place: Place = tuple(error.absolute_path)
        findings.extend(islice(_explain(blank, error, place, schema_name), MAX_MISTAKES - len(findings)))
        if len(findings) == MAX_MISTAKES:
            return _given_up(blank, findings)
        if error.validator != "additionalProperties":
            broken.add(place)
    for place, leaf in _scalars(node):
        if type(leaf.scalar) is float and leaf.scalar.is_integer() and place not in broken:
            message = phrase("expected a whole number, found {found}", found=leaf.scalar)
            findings.append(
                _finding(blank, place, "bad-type", message, phrase("write {value}", value=int(leaf.scalar)))
            )
            broken.add(place)
        trap = trap_of(leaf)
        if trap and place not in broken:
            severity = Severity.NOTE if isinstance(leaf.scalar, bool) else Severity.WARNING
            findings.append(_finding(blank, place, "yaml-trap", trap, plainly(leaf), severity))
    around = frozenset(place[:depth] for place in broken for depth in range(len(place) + 1))
    return replace(blank, findings=tuple(findings), broken=frozenset(broken), around=around)


def _given_up(blank: Section, findings: list[Finding]) -> Section:
    """The section as an empty one: what was not looked at must not be used."""
    more = _finding(
        blank,
        (),
        "too-many-mistakes",
        phrase("this section has {count} mistakes or more", count=len(findings)),
        phrase("nothing else is said of it before they are corrected"),
    )
    nothing = replace(blank.node, kind="mapping", items=(), entries={})
    return replace(blank, node=nothing, findings=(*findings, more))


def _leaves(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """Errors inside `then` belong to the user's value, not to the condition."""
    for error in errors:
        if error.context:
            yield from _leaves(error.context)
        else:
            yield error


def _explain(section: Section, error: ValidationError, place: Place, schema_name: str) -> Iterator[Finding]:
    rule: dict[str, Any] = dict(cast("Any", error.schema))
    limit: Any = error.validator_value
    told = rule.get("x-expected")
    wanted = phrase(told) if told else phrase("another value")
    if error.validator == "additionalProperties":
        yield from _unknown_keys(section, rule, place, schema_name)
    elif error.validator == "required":
        key = next(name for name in limit if f"'{name}'" in error.message)
        if key not in _misspelt(section.at(place), rule):  # else it is told as an unknown key
            yield _finding(
                section,
                place,
                "missing-key",
                phrase("`{key}` is missing", key=key),
                phrase("add `{key}:` with {expected}", key=key, expected=_expected(rule["properties"][key])),
            )
    elif error.validator == "minimum":
        message = phrase("{value} is below {limit}", value=error.instance, limit=limit)
        yield _finding(section, place, "bad-value", message, phrase("give {expected}", expected=wanted))
    elif error.validator == "minItems":
        yield _finding(
            section, place, "bad-value", phrase("the list is empty"), phrase("give {expected}", expected=wanted)
        )
    else:
        node = section.at(place)
        message = phrase("expected {expected}, found {found}", expected=wanted, found=describe(node))
        yield _finding(section, place, "bad-type", message, remedy(node, rule, schema_name))


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


def _misspelt(node: Node, rule: Mapping[str, Any]) -> dict[str, str]:
    """The keys that a mapping needs and has under a name that is nearly theirs, each with that name."""
    missing, known = set(rule.get("required", ())) - node.entries.keys(), list(rule["properties"])
    likely = {likely_key(key, known): key for key in node.entries if key not in known} if missing else {}
    return {key: likely[key] for key in rule.get("required", ()) if key in likely and key in missing}


def _unknown_keys(section: Section, rule: Mapping[str, Any], place: Place, schema_name: str) -> Iterator[Finding]:
    parent, known = section.at(place), list(rule["properties"])
    needed = _misspelt(parent, rule).values()
    for key, entry in parent.entries.items():
        if key in known or indented_by(key) or _is_rest_of_tuple(entry, parent):  # misplaced.py tells of odd spaces
            continue
        origin = section.document.key_origin(entry, section.name((*place, key)))
        # mindformers itself stops on an unknown key of a section, and ignores one in an entry, unless it then lacks one
        severity = Severity.WARNING if place and key not in needed else Severity.ERROR
        yield Finding(
            origin=origin,
            rule="unknown-key",
            severity=severity,
            message=phrase("unknown key `{key}`", key=key),
            hint=meant_key(key, known, schema_name, top=not place),
        )


def _is_rest_of_tuple(entry: Entry, parent: Node) -> bool:
    """Whether a key is what follows the comma of ``{layers: (0, 1)}``, whose value is the text ``(0``."""
    if entry.value.kind != "scalar" or entry.value.scalar is not None or not entry.key.rstrip(")").isdecimal():
        return False
    values = [str(other.value.scalar) for other in parent.entries.values()]
    return any(value.startswith("(") and ")" not in value for value in values)


def _scalars(node: Node, place: Place = ()) -> Iterator[tuple[Place, Node]]:
    if node.kind == "scalar":
        yield place, node
    for index, item in enumerate(node.items):
        yield from _scalars(item, (*place, index))
    for key, entry in node.entries.items():
        yield from _scalars(entry.value, (*place, key))


def _finding(
    section: Section, place: Place, rule: str, message: str, hint: str, severity: Severity = Severity.ERROR
) -> Finding:
    return Finding(origin=section.origin(place), rule=rule, severity=severity, message=message, hint=hint)
