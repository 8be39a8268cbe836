"""TEXT -> IGNORES: ``# swapconf: ignore[rule, ...] reason`` on a line or the line above it, and what they silence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

_MARK = r"#\s*swapconf:\s*ignore\b(?:\[(?P<rules>[^\]]*)\])?(?P<reason>[^#]*)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ignore:
    """One comment. ``target``: the line (from 1) whose findings it silences."""

    origin: Origin
    target: int
    rules: tuple[str, ...]
    reason: str


def read(text: str, file: str) -> tuple[Ignore, ...]:
    """The ignores of a YAML, which must be one that can be parsed."""
    if "swapconf:" not in text:
        return ()
    from swapconf.config.yaml_comments import comments  # few YAMLs ignore anything

    found = []
    for comment in comments(text):
        match = re.match(_MARK, comment.text)
        if match:
            rules = tuple(name.strip() for name in (match["rules"] or "").split(",") if name.strip())
            found.append(
                Ignore(
                    origin=Origin(file=file, line=comment.line, column=comment.column),
                    target=comment.about,
                    rules=rules,
                    reason=match["reason"].strip(" \t:-"),
                )
            )
    return tuple(found)


def apply(
    findings: Sequence[Finding], ignores: Sequence[Ignore], known: Collection[str], may_be_unused: Collection[str] = ()
) -> list[Finding]:
    """The findings that nothing silences, and what is wrong with the ignores themselves.

    ``may_be_unused``: files whose comments may well have nothing to silence: others include them as well, or the values
    are not those of the text.
    """
    left = [finding for finding in findings if not any(_silences(ignore, finding) for ignore in ignores)]
    judged = [told for ignore in ignores for told in _judge(ignore, findings, known)]
    return left + [told for told in judged if told.rule != "ignore-unused" or told.origin.file not in may_be_unused]


def _silences(ignore: Ignore, finding: Finding) -> bool:
    return _is_about(ignore, finding) and finding.rule in ignore.rules


def _is_about(ignore: Ignore, finding: Finding) -> bool:
    return (finding.origin.file, finding.origin.line) == (ignore.origin.file, ignore.target)


def _judge(ignore: Ignore, findings: Sequence[Finding], known: Collection[str]) -> Iterator[Finding]:
    if not ignore.rules:
        yield _finding(
            "ignore-unknown-rule",
            Severity.ERROR,
            ignore,
            phrase("this comment names no rule: it ignores nothing"),
            phrase("write `# swapconf: ignore[rule] reason`"),
        )
    for rule in ignore.rules:
        if rule not in known:
            close = get_close_matches(rule, known, n=1)
            yield _finding(
                "ignore-unknown-rule",
                Severity.ERROR,
                ignore,
                phrase("there is no rule `{rule}`", rule=rule),
                phrase("`{name}` was probably meant", name=close[0])
                if close
                else phrase("`swapconf rules` lists them"),
            )
        elif not any(_is_about(ignore, finding) and finding.rule == rule for finding in findings):
            yield _finding(
                "ignore-unused",
                Severity.WARNING,
                ignore,
                phrase("line {line} has no finding of `{rule}`", line=ignore.target, rule=rule),
                phrase("remove the comment, or put it on the line of the finding or the line above"),
            )
    if ignore.rules and not ignore.reason:
        yield _finding(
            "ignore-without-reason",
            Severity.WARNING,
            ignore,
            phrase("this comment does not say why"),
            phrase("write the reason after the bracket"),
        )


def _finding(rule: str, severity: Severity, ignore: Ignore, message: str, hint: str) -> Finding:
    return Finding(origin=ignore.origin, rule=rule, severity=severity, message=message, hint=hint)
