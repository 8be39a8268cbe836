"""What every test can count on, whatever the locale and the speed of the machine that runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from swapconf.words import phrases

os.environ["SWAPCONF_LANG"] = phrases.ENGLISH  # for programs that a test starts, too
# a process of tests for each core: more threads of numpy only wait for each other; nothing has imported numpy yet
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
settings.register_profile("untimed", deadline=None)  # how fast a machine is proves nothing
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _in_english() -> Iterator[None]:
    yield
    phrases.use(phrases.ENGLISH)


@pytest.fixture
def chinese() -> None:
    """For a test that reads what people read in Chinese."""
    phrases.use("zh")


TOLD = "told"  # a property of a test that is to be read although nothing failed, from another process, too


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """It stands here, as the process that sums up does not load the conftest of a folder whose tests others run."""
    told = [
        text
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, text in report.user_properties
        if name == TOLD and report.when == "call"
    ]
    if told:
        terminalreporter.section("agreement on random strategies")
        for text in told:
            terminalreporter.write_line(text)
