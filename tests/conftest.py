"""What every test can count on, whatever the locale and the speed of the machine that runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from swapconf import phrases

os.environ["SWAPCONF_LANG"] = phrases.ENGLISH  # for programs that a test starts, too
settings.register_profile("untimed", deadline=None)  # how fast a machine is proves nothing
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _in_english() -> Iterator[None]:
    yield
    phrases.use(phrases.ENGLISH)
