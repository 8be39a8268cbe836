"""HIT -> what stands around it: the traceback above, the time of day, who printed it, its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

from swapconf.postmortem.failure import Frame, Process
from swapconf.postmortem.message import Framework
from swapconf.postmortem.scan import Hit

_MOST_FRAMES = 200
_TEXT_BYTES = 300
_CENTURY, _MOST_CENTURIES = b"20", 64
_TIME = re.compile(rb"(20\d\d-\d\d-\d\d)[-T ](\d\d:\d\d:\d\d)(?:[.,](\d{3}))?")
_TIME_BYTES = 4096
_FRAME = re.compile(rb'File "([^"\n]{1,300})", line \d{1,7}, in ([\w<>.]{1,100})')
_TRACEBACK = b"Traceback (most recent call last)"
_BEHIND_FRAMES = 2048  # bytes from the last frame to the message
_PREFIX = re.compile(rb"\[[A-Z]{4,9}\] (\w{1,30})\((\d{1,9}),(\w{1,20}),")
# of a plog: the name of the process, and the thread behind the place in CANN's sources
_PLOG_PREFIX = re.compile(
    rb"\[([A-Z]{4,9})\] (\w{1,30})\((\d{1,9}), ?[^,()\n]{1,64}\) ?:[-:. \d]{10,40}(?:\[[^\]\n]{1,120}\] ?(\d{1,9}) )?"
)
_FAILING = (b"ERROR", b"CRITICAL")  # levels of a plog; CANN tries smaller pages after a warning


def frames(hit: Hit) -> tuple[Frame, ...]:
    """The traceback that ends in the message."""
    text = hit.before
    at = text.rfind(_TRACEBACK)
    if at < 0 or text.rfind(b'File "', len(text) - 2 * _BEHIND_FRAMES) < 0:
        return ()
    found = list(islice(_FRAME.finditer(text, at), _MOST_FRAMES))
    if not found or len(text) - found[-1].end() > _BEHIND_FRAMES:
        return ()
    return tuple(
        Frame(file=match[1].decode("utf-8", "replace"), function=match[2].decode("utf-8", "replace")) for match in found
    )


def time_of(hit: Hit) -> str:
    """The last time of day that was printed, in one form, so that logs can be compared; torch_npu prints it with the
    process, below a message."""
    match = _time_in(hit.around, bytes.find)
    if match is None and b" (PID:" in hit.below:
        match = _time_in(hit.below, bytes.find)
    if match is None:
        match = _time_in(hit.before[-_TIME_BYTES:], bytes.rfind)
    if match is None:
        return ""
    day, time, part = (text.decode() if text else "" for text in match.groups())
    return f"{day} {time}.{part}".rstrip(".")


def _time_in(text: bytes, find: Callable[[bytes, bytes, int, int], int]) -> re.Match[bytes] | None:
    """The first time, or the last: a pattern takes a hundred times as long as to look for its century."""
    begin, end = 0, len(text)
    for _ in range(_MOST_CENTURIES):
        at = find(text, _CENTURY, begin, end)
        if at < 0:
            return None
        if (match := _TIME.match(text, at)) is not None:
            return match
        begin, end = (at + 1, end) if find is bytes.find else (begin, at + 1)
    return None


def text_of(hit: Hit) -> str:
    """The message without the prefix of a logger."""
    behind = hit.line.rfind(b"] ", 0, hit.at)
    begin = max(behind + 2 if behind >= 0 else 0, hit.at - _TEXT_BYTES // 2)
    return hit.line[begin : begin + _TEXT_BYTES].decode("utf-8", "replace").strip()


def process_of(hit: Hit) -> Process:
    match = _PREFIX.search(hit.around)
    if match is None:
        match = _PLOG_PREFIX.search(hit.around)
    if match is None:
        return Process()
    component, pid, thread = (part.decode() if part else "" for part in match.groups()[-3:])
    return Process(component=component, pid=pid, thread=thread)


def is_warning(hit: Hit) -> bool:
    """Whether CANN itself logs it as less than an error."""
    if hit.message.framework is not Framework.CANN:
        return False
    match = _PLOG_PREFIX.search(hit.line[: hit.at])
    return match is not None and match[1] not in _FAILING
