r"""PATTERN + TEMPLATE -> OPERATORS: mindformers' operator patterns, with a bound on the time they may take.

A pattern is split at every backslash-dot; each element is a regular expression that must match a whole name
(mindformers 1.9.0, LayerSetting.set_pattern_swap). So ``attention\.flash_attention`` has two elements, and
``attention.flash_attention`` has one, whose dot is a wildcard and which no name can match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from swapconf.decide import budget
from swapconf.models.network import LayerTemplate, Operator
from swapconf.words.lookalikes import in_ascii
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    import regex

SEPARATOR = r"\."
MAX_LENGTH = 256
MAX_REPEATS = 1000  # product of all {n}: nested repeats are unrolled when the pattern is compiled
MAX_NESTING = 10  # of groups; what `regex` takes to compile can double with each

_ABOVE_A_LAYER = {"model", "decoder", "transformer", "encoder", "layers"}
_REPEAT = r"\{(\d*),?(\d*)\}"
_ESCAPE = r"(?s)\\."
_RECURSION = r"\(\?(R|&|P>|[-+]?\d)"


class BadPattern(ValueError):
    """The pattern is not a regular expression that can be used; the text says why."""


def compiled(pattern: str) -> tuple[regex.Pattern[str], ...]:
    """The elements of a pattern, if the file's budget admits it. Raises BadPattern."""
    admitted(pattern)
    return _compiled(pattern)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[regex.Pattern[str], ...]:
    import regex  # its matching can be timed; heavy, so only when there is a pattern

    checked_length(pattern)
    elements = []
    for element in pattern.split(SEPARATOR):
        try:
            elements.append(regex.compile(element))
        except (regex.error, RecursionError, OverflowError, MemoryError) as error:
            raise BadPattern(
                phrase("'{pattern}' is not a regular expression: {error}", pattern=element, error=error)
            ) from None
    return tuple(elements)


def admitted(pattern: str) -> None:
    """Raises BadPattern where the file's budget is spent."""
    try:
        budget.current().admit(pattern)
    except budget.Spent as spent:
        raise BadPattern(str(spent)) from None


def checked_length(pattern: str) -> None:
    """Raises BadPattern for one that is too long to be meant, or that would take for ever to compile."""
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(phrase("longer than {limit} characters", limit=MAX_LENGTH))
    repeats = 1
    for low, high in re.findall(_REPEAT, pattern):
        repeats *= int((high or low)[:9] or 1)
    if repeats > MAX_REPEATS or re.search(_RECURSION, pattern):
        raise BadPattern(phrase("its repetitions or recursion are unbounded; operator names are short"))
    if _nesting(pattern) > MAX_NESTING:
        raise BadPattern(phrase("groups nested deeper than {limit}, or more of them beside a set", limit=MAX_NESTING))


def _nesting(pattern: str) -> int:
    """How deep groups are nested at most. In a set or a comment a bracket closes nothing, so all groups count there."""
    text = re.sub(_ESCAPE, "", pattern)
    if "[" in text or "#" in text:
        return text.count("(")
    return max(accumulate(((char == "(") - (char == ")") for char in text), initial=0))


def matches(pattern: str, template: LayerTemplate) -> tuple[Operator, ...]:
    """The operators of a layer that a pattern selects, in the layer's order. Raises BadPattern."""
    compiled(pattern)
    return _matches(pattern, template)


@lru_cache(maxsize=4096)
def _matches(pattern: str, template: LayerTemplate) -> tuple[Operator, ...]:
    elements, left = _compiled(pattern), budget.current()
    return tuple(
        operator for operator in template.operators if _fits(elements, operator.path.split("."), pattern, left)
    )


def last_fits(pattern: str, name: str) -> bool:
    """Whether the last element of a pattern matches a name. Raises BadPattern."""
    return _fits(compiled(pattern)[-1:], (name,), pattern, budget.current())


def repeats(one: str, other: str) -> bool:
    """Whether two patterns have as many elements, each of which matches the other's as a text, one way or the other
    (mindformers 1.9.0, LayerSetting._check_repeat_pattern). False for one that cannot be used."""
    try:
        pairs = zip(compiled(one), compiled(other), strict=True)
        left = budget.current()
        return all(left.fits(a, b.pattern, one) or left.fits(b, a.pattern, other) for a, b in pairs)
    except (BadPattern, budget.Spent, ValueError):
        return False


def _fits(elements: Sequence[regex.Pattern[str]], names: Sequence[str], pattern: str, left: budget.Budget) -> bool:
    try:
        return len(elements) == len(names) and all(
            left.fits(element, name, pattern) for element, name in zip(elements, names, strict=True)
        )
    except budget.Spent as spent:
        raise BadPattern(str(spent)) from None


def primitives_below(operator: str, template: LayerTemplate) -> tuple[Operator, ...]:
    """The primitives that flagging an operator flags: itself, or all below it ("" is the layer)."""
    if operator in template.by_path and template.by_path[operator].kind == "primitive":
        return (template.by_path[operator],)
    prefix = f"{operator}." if operator else ""
    return tuple(primitive for primitive in template.primitives if primitive.path.startswith(prefix))


def escaped(path: str) -> str:
    """A dotted path as a pattern that matches it and nothing else."""
    return SEPARATOR.join(re.escape(name) for name in path.split("."))


def unescaped_dot(pattern: str, template: LayerTemplate) -> str | None:
    """The pattern with its dots escaped, when that is what makes it match."""
    parts = [part for chunk in pattern.split(SEPARATOR) for part in chunk.replace("/", ".").split(".")]
    repaired = SEPARATOR.join(parts)
    if repaired == pattern or len(parts) < 2:
        return None
    return repaired if _safe_matches(repaired, template) else None


def single_backslashes(pattern: str) -> str | None:
    r"""The pattern with one backslash before each dot, as YAML has it in single quotes; None where none is doubled."""
    return pattern.replace(r"\\.", SEPARATOR) if r"\\." in pattern else None


def suggestions(pattern: str, templates: tuple[LayerTemplate, ...]) -> tuple[str, ...]:
    """Patterns that were probably meant, best first, at most three."""
    plain = in_ascii(pattern).strip("'\" ").replace(SEPARATOR, ".").replace("/", ".")
    paths = {operator.path.lower(): operator.path for template in templates for operator in template.operators}
    guesses = next(filter(None, (tuple(kind(plain.lower(), paths)) for kind in (_same, _last_name, _similar))), ())
    return tuple(escaped(guess) for guess in dict.fromkeys(guesses))[:3]


def _same(wanted: str, paths: dict[str, str]) -> Iterator[str]:
    """Upper and lower case aside, or with a prefix such as `model.layers.0` that is not part of an operator path."""
    names = wanted.split(".")
    while names and (names[0] in _ABOVE_A_LAYER or names[0].isdigit()):
        names.pop(0)
    if ".".join(names) in paths:
        yield paths[".".join(names)]


def _last_name(wanted: str, paths: dict[str, str]) -> Iterator[str]:
    last = wanted.split(".")[-1]
    same = [lower for lower in paths if last and lower.split(".")[-1] == last]
    return (paths[close] for close in get_close_matches(wanted, same, n=3, cutoff=0.0))


def _similar(wanted: str, paths: dict[str, str]) -> Iterator[str]:
    return (paths[close] for close in get_close_matches(wanted, paths, n=3, cutoff=0.7))


def _safe_matches(pattern: str, template: LayerTemplate) -> tuple[Operator, ...]:
    try:
        return matches(pattern, template)
    except BadPattern:
        return ()
