"""What holds of every log of a failed run: no bytes crash the reading, and figures come out as they went in."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swapconf.postmortem import run_log, scan
from swapconf.postmortem.advice import advice
from swapconf.postmortem.answer import answer
from swapconf.postmortem.cann_modules import MODULES
from swapconf.postmortem.ending import Ending
from swapconf.postmortem.endings import END_ANCHORS, ENDINGS
from swapconf.postmortem.failure import Failure
from swapconf.postmortem.message import PART, Message
from swapconf.postmortem.messages import ANCHORS, MESSAGES
from swapconf.postmortem.run_log import RunLog
from swapconf.report import ending_text, oom_text
from swapconf.report.rank_ends import rank_ends
from swapconf.words.units import GIB, MIB
from tests.helpers import ROOT

T = TypeVar("T", Failure, Ending)
REAL = [path.read_bytes() for path in sorted((ROOT / "tests/oom").rglob("*.log"))]
LAUNCHER = next(log for log in REAL if b"first observed failure" in log and b"SIGKILL" in log)
PIECES = [*ANCHORS, *END_ANCHORS, *(text for message in (*MESSAGES, *ENDINGS) for text in message.always)]
BYTES = st.lists(
    st.sampled_from(PIECES)
    | st.binary(max_size=60)
    | st.sampled_from([b"\n", b" ", b"512", b"507015", b"1e999", b"-1", b"\x1b[", b"Traceback (most recent call last)"])
    | st.sampled_from([b"[rank3]: ", b"(PID:7, Device:1, RankID:-1)", b"[PID: 7]", b'  File "a.py", line 1, in f\n'])
    | st.integers(0, 2**70).map(lambda number: str(number).encode()),
    max_size=40,
).map(b"".join)
SIZES = st.integers(0, 2**62)


def read(data: bytes, block: int = 2**17, window: int = 2**13) -> RunLog:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "worker_0.log"
        path.write_bytes(data)
        patch.setattr(scan, "BLOCK_BYTES", block)
        patch.setattr(scan, "WINDOW_BYTES", window)
        return run_log.read(path)


def told(log: RunLog) -> None:
    list(rank_ends(log, Path("logs")))
    list(ending_text.strange_figures(log))
    ending_text.endings_as_records(log)
    if log.endings:
        assert ending_text.ending_table(log).rows
        assert all(advice(one) for one in log.endings)
    if not log.failures:
        list(oom_text.endings(log))
        return
    found = answer(log)
    oom_text.as_record(log, found)
    assert oom_text.failure_table(log, found).rows
    assert found.remedies


@settings(max_examples=400)
@given(data=BYTES, block=st.sampled_from([7, 64, 2**17]), window=st.sampled_from([64, 2**13]))
def test_no_bytes_crash_the_reading(data: bytes, block: int, window: int) -> None:
    told(read(data, block, window))


@settings(max_examples=200)
@given(real=st.sampled_from(REAL), at=st.integers(0, 3000), put=st.binary(max_size=20), gone=st.integers(0, 40))
def test_no_change_of_a_real_log_crashes_the_reading(real: bytes, at: int, put: bytes, gone: int) -> None:
    told(read(real[:at] + put + real[at + gone :]))


@settings(max_examples=300)
@given(message=st.sampled_from([*MESSAGES, *ENDINGS]), data=st.data())
def test_the_figures_of_a_message_come_back(message: Message, data: st.DataObject) -> None:
    """Each form filled with figures, in each way in which they are written."""
    text, expected = filled(message, data)
    assert message.read(text.encode()) == expected


def filled(message: Message, data: st.DataObject) -> tuple[str, dict[str, int | str]]:
    expected: dict[str, int | str] = {}

    def put(match: re.Match[str]) -> str:
        value: int | str
        name, kind, bracket = match.groups()
        if bracket or kind == "gap":
            return ", " if kind else ""
        if kind == "bytes":
            value = data.draw(SIZES)
            shown = str(value)
        elif kind == "size":
            size = data.draw(st.integers(0, 2**20))
            unit, factor = data.draw(st.sampled_from([("M", MIB), ("G", GIB), (" MiB", MIB), (" GiB", GIB)]))
            shown, value = f"{size}{unit}", size * factor
        elif kind == "module":
            number = data.draw(st.sampled_from(sorted(MODULES)))
            shown, value = str(number), MODULES[number]
        elif kind in ("id", "signed"):
            value = data.draw(st.integers(0, 9999))
            shown = str(value)
        elif kind == "code":
            value = data.draw(st.integers(100_000, 999_999))
            shown = str(value)
        elif kind == "gib":
            size = data.draw(st.integers(0, 999))
            shown, value = f"{size}.50", round((size + 0.5) * GIB)
        elif kind == "blank":
            shown = value = "  "
        elif kind == "beyond":
            shown = value = "more than 1EB"
        else:
            shown = value = data.draw(st.from_regex(r"\A[A-Za-z][A-Za-z0-9_]{0,20}\Z"))
        if name:
            expected[name] = value
        return shown

    return PART.sub(put, message.form), expected


@settings(max_examples=200)
@given(
    asked=st.integers(1, 2**40),
    used=st.integers(0, 2**40),
    limit=st.integers(1, 2**40),
    pad=st.integers(0, 400),
    block=st.sampled_from([50, 997, 2**17]),
)
def test_a_failure_is_the_same_wherever_blocks_end(asked: int, used: int, limit: int, pad: int, block: int) -> None:
    line = (
        f"TotalUsedMemStatistics : {used} plus TotalUsedByEventMemStatistics : 0 and plus alloc size : {asked} is more "
        f"than total mem size : {limit}."
    )
    log = read(f"{'z' * pad}\nyes\n{line}\nafter\n".encode(), block)
    (failure,) = log.failures
    assert (failure.size("asked", ""), failure.size("in_use"), failure.size("limit")) == (asked, used, limit)
    assert (failure.line, log.num_others) == (3, 0)


@settings(max_examples=100)
@given(real=st.sampled_from(REAL), before=st.integers(0, 400), noise=st.sampled_from([b"step", b"x" * 400, b"memory"]))
@example(real=LAUNCHER, before=171, noise=b"x" * 400)  # its report of seven lines goes on in the next block
def test_what_stands_before_a_failure_only_moves_it(real: bytes, before: int, noise: bytes) -> None:
    log, alone = read((noise + b"\n") * before + real, 4096), read(real)
    moved = before * (len(noise) + 1)

    def as_alone(one: T) -> T:
        return replace(one, line=one.line - before, offset=one.offset - moved, path=Path())

    assert [as_alone(one) for one in log.failures] == [replace(one, path=Path()) for one in alone.failures]
    assert [as_alone(one) for one in log.endings] == [replace(one, path=Path()) for one in alone.endings]
