"""TEXT -> LINES: what every reader of a trace file needs. A few MiB are held at a time; damage becomes findings.

A parser of a line says what is wrong with a ValueError; `Damage` adds file and line, and ends the reading with all of
it. A file that breaks off in the middle of a line is damaged, too: MindSpore ends every file with a line break.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from swapconf.files.opening import open_binary
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

CHUNK_BYTES = 2**21
MAX_LINE_BYTES = 16 * 2**20
MAX_FINDINGS = 20
MAX_NUMBER = 2**63 - 1
DIMENSION = phrase("a dimension")  # for `number`

NOT_FOUND, ENCODING, TRUNCATED = "file-not-found", "trace-encoding", "trace-truncated"
HEADER, GARBLED, INCOMPLETE = "trace-header", "trace-garbled", "trace-incomplete"

_DIGITS = {10: re.compile("[0-9]{1,19}"), 16: re.compile("(?:0x)?[0-9a-fA-F]{1,16}")}
_AGAIN = phrase("run `swapconf dryrun` again and let it end by itself; nothing is concluded from a damaged file")
_HINTS = {
    NOT_FOUND: phrase(
        "give the folder of one rank of a dry run, with the files that MindSpore's memory tracker left there"
    ),
    HEADER: phrase("it was written by a version of MindSpore that is not known here, or it is another file"),
}


class Damage:
    """What is wrong with one file, by line."""

    def __init__(self, path: str | Path, hints: Mapping[str, str] | None = None, again: str = _AGAIN) -> None:
        """``hints``: what to do, by rule; ``again`` for all others."""
        self.file = str(path)
        self._hints, self._again = _HINTS if hints is None else hints, again
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
        self._findings.append(
            Finding(
                origin=origin,
                rule=rule,
                severity=Severity.ERROR,
                message=message,
                hint=self._hints.get(rule, self._again),
            )
        )
        if len(self._findings) >= MAX_FINDINGS:
            self.refuse()

    def refuse(self) -> None:
        """Raises SwapconfError with all that was found, if anything was."""
        if self._findings:
            raise SwapconfError(self._findings)


def lines(path: str | Path, damage: Damage) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, from 1, without line breaks. Raises SwapconfError when it is no text."""
    for first, data in chunks(path, damage):
        for line, text in enumerate(data.decode("utf-8").split("\n")[:-1], first):
            yield line, text.rstrip("\r")


def chunks(path: str | Path, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Whole lines of valid text, some at a time, each time with the number of the first one.

    Raises SwapconfError at the first line that is no text, after all lines before it were given out.
    """
    line, rest = 1, b""
    try:
        with open_binary(path) as stream:
            while data := stream.read(CHUNK_BYTES):
                whole, end, data = data.rpartition(b"\n")
                if end:
                    yield from _checked(line, rest + whole + end, damage)
                    line += whole.count(b"\n") + rest.count(b"\n") + 1
                rest = data if end else rest + data
                if len(rest) > MAX_LINE_BYTES:
                    break
    except OSError as error:
        damage.add(NOT_FOUND, phrase("cannot be read ({reason})", reason=error.strerror or error))
    if rest:
        yield from _checked(line, rest, damage)
    damage.refuse()


def _checked(first: int, data: bytes, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """The data, if all of its lines are text; if not, those before the first bad one."""
    if _is_text(data):
        yield first, data
        return
    good = bytearray()
    for line, text in enumerate(BytesIO(data), first):
        if found := _not_a_line(text):
            if good:
                yield first, bytes(good)
            damage.add(*found, line)
            damage.refuse()
        good += text
    yield first, bytes(good)


def _is_text(data: bytes) -> bool:
    if b"\0" in data or len(data) > MAX_LINE_BYTES or not data.endswith(b"\n"):
        return False
    try:
        return data.isascii() or bool(data.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _not_a_line(data: bytes) -> tuple[str, str] | None:
    """(rule, what is wrong), if anything is."""
    if len(data) > MAX_LINE_BYTES:
        return GARBLED, phrase("a line of more than {size:,} bytes", size=MAX_LINE_BYTES)
    if b"\0" in data:
        return ENCODING, phrase("a zero byte, as after a full disk or a crash")
    if not data.endswith(b"\n"):
        return TRUNCATED, phrase("the file breaks off in the middle of this line")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return ENCODING, phrase("byte 0x{value:02x} is not UTF-8", value=data[error.start])
    return None


def number(text: str, what: str, base: int = 10) -> int:
    """A natural number of at most 63 bits. Raises ValueError that says which one is wrong."""
    if not _DIGITS[base].fullmatch(text):
        raise ValueError(phrase("{what} is {text}, not a number", what=what, text=shown(text)))
    value = int(text, base)
    if value > MAX_NUMBER:
        raise ValueError(phrase("{what} is {text}, which is too large", what=what, text=shown(text)))
    return value


def shown(text: str) -> str:
    """As part of a message, whatever stands there."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
