"""FINDING and its origin: something wrong or noteworthy in a config, where it stands and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import total_ordering

from swapconf.words.phrases import joined, mark, phrase, show


@total_ordering
class Severity(Enum):
    """``error``: the run fails or surely does not do what was asked; ``warning``: it may; ``note``: worth knowing."""

    ERROR = mark("error")
    WARNING = mark("warning")
    NOTE = mark("note")

    @property
    def rank(self) -> int:
        return ("note", "warning", "error").index(self.value)

    def __lt__(self, other: Severity) -> bool:
        return self.rank < other.rank


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """A place in a config: ``line`` and ``column`` count from 1 (0: the file as a whole, or no file at all)."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""

    @property
    def place(self) -> str:
        """File and line, or the file."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def line_from(self, other: Origin) -> str:
        """The line, for a text about another place; with the file where that is another."""
        return f"{self.line}" if self.file == other.file else f"{self.line} ({self.file})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """``message``: what is wrong; ``hint``: what was probably meant and what to do; ``rule``: its manual page.
    ``stops_with``: words with which MindSpore or mindformers stops for it, as a pattern; "" where none are known."""

    origin: Origin
    rule: str
    severity: Severity
    message: str
    hint: str
    stops_with: str = ""

    def __str__(self) -> str:
        place = self.origin
        return phrase(
            "{file}:{line}:{column}  {path}: {severity}: {message}; {hint} [{rule}]",
            file=place.file,
            line=place.line,
            column=place.column,
            path=place.path or phrase("(file)"),
            severity=phrase(self.severity.value),
            message=self.message,
            hint=self.hint,
            rule=self.rule,
        )

    def as_record(self) -> dict[str, object]:
        """The JSON form, its texts in the language in use."""
        place = self.origin
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "path": place.path,
            "rule": self.rule,
            "severity": self.severity.value,
            "message": show(self.message),
            "hint": show(self.hint),
        }


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted by place, each said once (an alias or a merge key can lead to one place on several ways)."""
    unique = dict.fromkeys(findings)
    return tuple(
        sorted(
            unique,
            key=lambda f: (
                f.origin.file,
                f.origin.line,
                f.origin.column,
                f.origin.path,
                -f.severity.rank,
                f.rule,
                f.message,
            ),
        )
    )


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


class SwapconfError(Exception):
    """Raised where a caller needs a result that the findings forbid; carries all of them.

    May also be made from text alone: mindformers raises what a model's constructor raises again, as ``type(e)(text)``.
    """

    def __init__(self, findings: Iterable[Finding] | str) -> None:
        self.findings = () if isinstance(findings, str) else in_order(findings)
        super().__init__(findings if isinstance(findings, str) else joined("\n", map(str, self.findings)))
