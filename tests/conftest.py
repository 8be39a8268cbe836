"""What every test can count on, whatever the locale of whoever runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from swapconf import phrases

os.environ["SWAPCONF_LANG"] = phrases.ENGLISH  # for programs that a test starts, too


@pytest.fixture(autouse=True)
def _in_english() -> Iterator[None]:
    yield
    phrases.use(phrases.ENGLISH)
