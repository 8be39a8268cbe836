"""TEXT + FINDINGS -> TEXT: repairs that cannot change the meaning for the worse; every other byte stays as it is.

A finding proposes an edit of its own few characters, the edited text is studied anew, and the edit is kept only if
the decided strategy is the same (for an escaped dot: if no other finding appears). So no edit has to be trusted.
Edits are made by the places that the parser gives, because writing the whole YAML anew, as ruamel.yaml does, also
changes indentation, quotes and the columns of comments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from swapconf.checking.order import Order
from swapconf.checking.run import study
from swapconf.checking.source import Source, Span
from swapconf.errors import Finding, Origin, Severity, SwapconfError
from swapconf.formats.nodes import Document
from swapconf.formats.yaml_document import parse
from swapconf.resolve.patterns import unescaped_dot
from swapconf.study.study import Study

_OURS = ("swap_config", "recompute_config")
_ESCAPE = "op-unescaped-dot"


@dataclass(frozen=True, slots=True)
class Reading:
    """A text and all that a repair compares."""

    text: str
    document: Document
    study: Study
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, order: Order, text: str) -> Reading:
        """Raises SwapconfError when the text cannot be read."""
        document = parse(text, order.file)
        studied = study(order, document)
        return cls(text, document, studied, studied.findings)


def repaired(order: Order, text: str) -> tuple[str, tuple[Finding, ...]]:
    """The text after every repair that is safe, and the findings that are gone by it.

    Raises SwapconfError when there is nothing to read.
    """
    reading = Reading.of(order, text)
    done: list[Finding] = []
    while True:
        step = next(filter(None, (_attempt(order, reading, finding) for finding in reading.findings)), None)
        if step is None:
            return reading.text, tuple(done)
        finding, reading = step
        done.append(finding)


def _attempt(order: Order, before: Reading, finding: Finding) -> tuple[Finding, Reading] | None:
    propose = _PROPOSALS.get(finding.rule)
    if propose is None or not finding.origin.path.startswith(_OURS):
        return None
    span = propose(Source(before.text), finding, before.study)
    if span is None:
        return None
    try:
        after = Reading.of(order, before.text[:span.start] + span.text + before.text[span.end:])
    except SwapconfError:
        return None
    return (finding, after) if _is_safe(before, after, finding.rule) else None


def _is_safe(before: Reading, after: Reading, rule: str) -> bool:
    """Whether one finding of the rule is gone, none is new, and nothing else reads differently."""
    was, now = _serious(before), _serious(after)
    gone = _count(before, rule) - _count(after, rule) > 0
    fewer = all(now[name] <= was[name] for name in now)
    same = rule == _ESCAPE or meaning(before.study) == meaning(after.study)
    return gone and fewer and same and _elsewhere(before) == _elsewhere(after)


def _count(reading: Reading, rule: str) -> int:
    return sum(finding.rule == rule for finding in reading.findings)


def _serious(reading: Reading) -> Counter[str]:
    return Counter(finding.rule for finding in reading.findings if finding.severity is not Severity.NOTE)


def _elsewhere(reading: Reading) -> dict[str, Any]:
    return {key: entry.value.plain() for key, entry in reading.document.root.entries.items() if key not in _OURS}


def meaning(studied: Study) -> object:
    """What the two sections decide, comparable; where the layers are not known, what they ask for."""
    strategy = studied.strategy
    if strategy is None:
        return _bare(studied.config.swap), _bare(studied.config.recompute)
    plans = [(entry.plan.actions(), dict(entry.plan.comm_recompute)) for entry in strategy.layers]
    return plans, strategy.swap_on, dict(strategy.recompute_options)


def _bare(value: Any) -> Any:
    """A value without the places in it."""
    if isinstance(value, Origin):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(_bare(getattr(value, item.name)) for item in fields(value))
    return tuple(map(_bare, value)) if isinstance(value, tuple) else value


# --- what each rule proposes ----------------------------------------------------------------------------------------


def _escape_dots(source: Source, finding: Finding, studied: Study) -> Span | None:
    pattern = source.scalar(finding.origin)
    templates = studied.network.templates if studied.network is not None else ()
    meant = next(filter(None, (unescaped_dot(pattern, template) for template in templates)), None) if pattern else None
    return source.replaced(finding.origin, meant) if meant else None


def _write_plainly(source: Source, finding: Finding, _: Study) -> Span | None:
    value = source.value(finding.origin)
    return source.replaced(finding.origin, str(value)) if isinstance(value, (bool, int)) else None


def _drop_key(source: Source, finding: Finding, _: Study) -> Span | None:
    return source.without_key(finding.origin)


def _drop_entry(source: Source, finding: Finding, _: Study) -> Span | None:
    return source.without_entry(finding.origin)


_PROPOSALS: Mapping[str, Callable[[Source, Finding, Study], Span | None]] = {
    _ESCAPE: _escape_dots,
    "yaml-trap": _write_plainly,
    "default-prefetch-ignored": _drop_key,
    "recompute-void": _drop_key,
    "swap-nothing": _drop_entry,
    "entry-shadowed": _drop_entry,
    "R1-recompute-wins": _drop_entry,
}
