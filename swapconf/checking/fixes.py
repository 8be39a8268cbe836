"""TEXT + FINDINGS -> TEXT: repairs that cannot change the meaning for the worse; every other byte stays as it is.

Findings propose edits of their own few characters. All that stand apart are made at once, the edited text is studied
anew, and they are kept if the decided strategy is the same; if not, each half of them is tried. A pattern that matched
nothing may change the strategy, and what its entry turns out to do may be warned of; no error may come. So no edit has
to be trusted, and the number of studies does not grow with the number of repairs.
Edits are made by the places that the parser gives, because writing the whole YAML anew, as ruamel.yaml does, also
changes indentation, quotes and the columns of comments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from swapconf.checking.request import CheckRequest
from swapconf.checking.run import study
from swapconf.config import base_config
from swapconf.config.nodes import Document
from swapconf.config.rewriting import without_places
from swapconf.config.spans import SourceText, TextSpan
from swapconf.decide.patterns import single_backslashes, unescaped_dot
from swapconf.decide.rules.case import matched
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError

Propose: TypeAlias = "Callable[[SourceText, Finding, Study], TextSpan | None]"

_OURS = ("swap_config", "recompute_config")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text and all that a repair compares."""

    text: str
    document: Document
    study: Study
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, order: CheckRequest, text: str) -> Reading:
        """Raises SwapconfError when the text cannot be read."""
        document = base_config.of_text(text, order.file)
        studied = study(order, document)
        return cls(text, document, studied, studied.findings)


@dataclass(frozen=True, slots=True)
class Repair:
    """What a finding proposes."""

    finding: Finding
    span: TextSpan


def repaired(order: CheckRequest, text: str) -> tuple[str, tuple[Finding, ...]]:
    """The text after every repair that is safe, and the findings that are gone by it.

    Raises SwapconfError when there is nothing to read.
    """
    reading = Reading.of(order, text)
    done: list[Finding] = []
    kind = _PATTERNS  # a removal keeps the meaning, so it waits until patterns mean something
    while True:
        kept, reading = _made(order, reading, _apart(_proposed(reading, kind)), meaning_stays=kind is _REDUNDANT)
        done += kept
        if kept:
            kind = _PATTERNS  # what was in the way of one may be gone
        elif kind is _REDUNDANT:
            return reading.text, tuple(done)
        else:
            kind = _REDUNDANT


def _proposed(reading: Reading, kind: Mapping[str, Propose]) -> Iterator[Repair]:
    findings = [
        finding
        for finding in reading.findings
        if finding.rule in kind
        and finding.origin.path.startswith(_OURS)
        and finding.origin.file == reading.document.file
    ]
    if not findings:
        return
    source, here = SourceText(reading.text), reading.document.file
    effective = [place for place in _in_effect(reading.study) if place.file == here]
    for finding in findings:
        span = kind[finding.rule](source, finding, reading.study)
        if span is not None and (
            span.text or not any(span.start <= source.offset(place) < span.end for place in effective)
        ):
            yield Repair(finding, span)


def _in_effect(studied: Study) -> tuple[Origin, ...]:
    """The entries of which something is in effect, so that they cannot go."""
    strategy = studied.strategy
    plans = dict.fromkeys(entry.plan for entry in strategy.layers) if strategy is not None else ()
    return tuple(
        {
            outcome.request.origin: None
            for plan in plans
            for outcome in plan.outcomes
            if (outcome.sites if outcome.request.is_swap else outcome.void is None)
        }
    )


def _apart(repairs: Iterable[Repair]) -> list[Repair]:
    """The repairs in the order of the text, without those that touch an earlier one."""
    chosen: list[Repair] = []
    for repair in sorted(repairs, key=lambda repair: (repair.span.start, repair.span.end)):
        if not chosen or chosen[-1].span.end <= repair.span.start:
            chosen.append(repair)
    return chosen


def _made(
    order: CheckRequest, before: Reading, repairs: Sequence[Repair], *, meaning_stays: bool
) -> tuple[list[Finding], Reading]:
    """The findings whose repairs were kept, and the reading after them: all at once, else each half by itself."""
    if not repairs:
        return [], before
    text = before.text
    for repair in reversed(repairs):
        text = text[: repair.span.start] + repair.span.text + text[repair.span.end :]
    try:
        after: Reading | None = Reading.of(order, text)
    except SwapconfError:
        after = None
    if after is not None and _is_safe(before, after, repairs, meaning_stays=meaning_stays):
        return [repair.finding for repair in repairs], after
    if not repairs[1:]:
        return [], before
    half = len(repairs) // 2
    later, reading = _made(order, before, repairs[half:], meaning_stays=meaning_stays)
    earlier, reading = _made(order, reading, repairs[:half], meaning_stays=meaning_stays)  # their places have not moved
    return [*earlier, *later], reading


def _is_safe(before: Reading, after: Reading, repairs: Sequence[Repair], *, meaning_stays: bool) -> bool:
    """Whether the findings are gone, none is new, and nothing else reads differently."""
    asked = Counter(repair.finding.rule for repair in repairs)
    gone = all(_count(before, rule) - _count(after, rule) >= asked[rule] for rule in asked)
    was, now = _weighed(before, errors=not meaning_stays), _weighed(after, errors=not meaning_stays)
    fewer = all(now[name] <= was[name] for name in now)
    same = not meaning_stays or meaning(before.study) == meaning(after.study)
    return gone and fewer and same and _elsewhere(before) == _elsewhere(after)


def _count(reading: Reading, rule: str) -> int:
    return sum(finding.rule == rule for finding in reading.findings)


def _weighed(reading: Reading, *, errors: bool) -> Counter[str]:
    """The findings by rule, without notes; ``errors``: without warnings, too."""
    least = Severity.ERROR if errors else Severity.WARNING
    return Counter(finding.rule for finding in reading.findings if finding.severity >= least)


def _elsewhere(reading: Reading) -> dict[str, Any]:
    return {key: entry.value.plain() for key, entry in reading.document.root.entries.items() if key not in _OURS}


def meaning(studied: Study) -> object:
    """What the two sections decide, comparable; where the layers are not known, what they ask for."""
    strategy = studied.strategy
    if strategy is None:
        return without_places(studied.config.swap), without_places(studied.config.recompute)
    plans = [(entry.plan.actions(), dict(entry.plan.comm_recompute)) for entry in strategy.layers]
    return plans, strategy.swap_on, dict(strategy.recompute_options)


# --- what each rule proposes ----------------------------------------------------------------------------------------


def _escape_dots(source: SourceText, finding: Finding, studied: Study) -> TextSpan | None:
    pattern = source.scalar(finding.origin)
    templates = studied.network.templates if studied.network is not None else ()
    meant = next(filter(None, (unescaped_dot(pattern, template) for template in templates)), None) if pattern else None
    return source.replaced(finding.origin, meant) if meant else None


def _halve_backslashes(source: SourceText, finding: Finding, studied: Study) -> TextSpan | None:
    meant = single_backslashes(source.scalar(finding.origin) or "")
    templates = studied.network.templates if studied.network is not None else ()
    return source.replaced(finding.origin, meant) if meant and matched(meant, templates) else None


def _write_plainly(source: SourceText, finding: Finding, _: Study) -> TextSpan | None:
    """Not a number that can be read in two ways: `020` may be 20 or 16, and a wrong number is found by nobody."""
    value, written = source.value(finding.origin), source.scalar(finding.origin) or ""
    known = isinstance(value, bool) or (
        isinstance(value, int) and written.lstrip("+-").isdigit() and int(written) == value
    )
    return source.replaced(finding.origin, str(value)) if known else None


def _drop_key(source: SourceText, finding: Finding, _: Study) -> TextSpan | None:
    return source.without_key(finding.origin)


def _drop_entry(source: SourceText, finding: Finding, _: Study) -> TextSpan | None:
    return source.without_entry(finding.origin)


_PATTERNS: Mapping[str, Propose] = {"op-unescaped-dot": _escape_dots, "bad-pattern": _halve_backslashes}
_REDUNDANT: Mapping[str, Propose] = {
    "yaml-trap": _write_plainly,
    "default-prefetch-ignored": _drop_key,
    "recompute-void": _drop_key,
    "swap-nothing": _drop_entry,
    "entry-shadowed": _drop_entry,
    "R1-recompute-wins": _drop_entry,
}
