"""TEXT -> LINES: what every reader of a trace file needs. One line is held at a time; damage becomes findings.

A parser of a line says what is wrong with a ValueError; `Damage` adds file and line, and ends the reading with all of
it. A file that breaks off in the middle of a line is damaged, too: MindSpore ends every file with a line break.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swapconf.errors import Finding, Origin, Severity, SwapconfError

MAX_LINE_BYTES = 16 * 2**20
MAX_FINDINGS = 20

NOT_FOUND, ENCODING, TRUNCATED = "file-not-found", "trace-encoding", "trace-truncated"
HEADER, GARBLED, INCOMPLETE = "trace-header", "trace-garbled", "trace-incomplete"

_AGAIN = "run `swapconf dryrun` again and let it end by itself; nothing is concluded from a damaged file"
_HINTS = {
    NOT_FOUND: "give the folder of one rank of a dry run, with the files that MindSpore's memory tracker left there",
    HEADER: "it was written by a version of MindSpore that is not known here, or it is another file",
}

# (severity, manual page) by name
RULES: dict[str, tuple[str, str]] = {
    ENCODING: ("error", "A trace file is not UTF-8 text, or holds zero bytes, as after a full disk."),
    TRUNCATED: ("error", "A trace file is empty or breaks off in the middle of a line: the run did not end by itself."),
    HEADER: ("error", "The columns of a trace file are not those that MindSpore's memory tracker writes."),
    GARBLED: ("error", "A line of a trace file cannot be read, or contradicts the lines before it: rows are missing, "
                       "repeated or changed."),
    INCOMPLETE: ("error", "A trace file lacks what the other files of the same run speak of."),
}


class Damage:
    """What is wrong with one file, by line."""

    def __init__(self, path: str | Path) -> None:
        self.file = str(path)
        self._findings: list[Finding] = []

    @contextmanager
    def at(self, line: int) -> Iterator[None]:
        """A ValueError inside is what is wrong with this line."""
        try:
            yield
        except ValueError as error:
            self.add(GARBLED, str(error), line)

    def add(self, rule: str, message: str, line: int = 0) -> None:
        """Ends the reading when there is so much of it that the file must be another one."""
        origin = Origin(file=self.file, line=line, column=1 if line else 0)
        self._findings.append(Finding(origin=origin, rule=rule, severity=Severity.ERROR, message=message,
                                      hint=_HINTS.get(rule, _AGAIN)))
        if len(self._findings) >= MAX_FINDINGS:
            self.refuse()

    def refuse(self) -> None:
        """Raises SwapconfError with all that was found, if anything was."""
        if self._findings:
            raise SwapconfError(self._findings)


def lines(path: str | Path, damage: Damage) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, from 1, without line breaks. Raises SwapconfError when it is no text."""
    try:
        with open(path, "rb") as stream:
            line = 0
            while data := stream.readline(MAX_LINE_BYTES + 1):
                line += 1
                yield line, _text(data, line, damage)
    except OSError as error:
        damage.add(NOT_FOUND, f"cannot be read ({error.strerror or error})")
    damage.refuse()


def _text(data: bytes, line: int, damage: Damage) -> str:
    try:
        if data.endswith(b"\n") and b"\0" not in data:
            return data.decode("utf-8").rstrip("\r\n")
        damage.add(*_not_a_line(data), line)
    except UnicodeDecodeError as error:
        damage.add(ENCODING, f"byte 0x{data[error.start]:02x} is not UTF-8", line)
    damage.refuse()
    return ""


def _not_a_line(data: bytes) -> tuple[str, str]:
    if b"\0" in data:
        return ENCODING, "a zero byte, as after a full disk or a crash"
    if len(data) > MAX_LINE_BYTES:
        return GARBLED, f"a line of more than {MAX_LINE_BYTES:,} bytes"
    return TRUNCATED, "the file breaks off in the middle of this line"


def number(text: str, what: str, base: int = 10) -> int:
    """A natural number. Raises ValueError that says which one is wrong."""
    digits = text.removeprefix("0x") if base == 16 else text
    if not digits or len(digits) > 20 or not digits.isascii() or not digits.isalnum():
        raise ValueError(f"{what} is {shown(text)}, not a number")
    try:
        return int(digits, base)
    except ValueError:
        raise ValueError(f"{what} is {shown(text)}, not a number") from None


def shown(text: str) -> str:
    """As part of a message, whatever stands there."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
