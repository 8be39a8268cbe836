"""The texts by which `swapconf oom` knows MindSpore's messages stand in the libraries of each that is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from swapconf.postmortem.message import Framework, Message
from swapconf.postmortem.messages import MESSAGES
from tests.mindspore import test_pynative as pair

FOLDERS = ("lib", "lib/plugin", "lib/plugin/ascend")
OF_2_9 = [one for one in MESSAGES if one.framework is Framework.MINDSPORE and "2.9.0" in one.versions]


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(Path(sys.executable), marks=pytest.mark.mindspore, id="2.9.0"),
        pytest.param(pair.PYTHON, marks=pair.pytestmark, id="2.10.0"),
    ],
)
def test_the_messages_of_2_9_0_are_in_the_libraries_that_are_named(python: Path) -> None:
    (place,) = python.parents[1].glob("lib/python3*/site-packages/mindspore")
    named = {word.strip(",;") for message in OF_2_9 for word in message.source.split() if word.startswith("lib")}
    paths = [path for folder in FOLDERS for path in (place / folder).glob("*.so*") if path.name in named]
    known = {path.name: path.read_bytes() for path in paths}
    assert [message.name for message in OF_2_9 if not _is_in(message, known)] == []


def _is_in(message: Message, known: dict[str, bytes]) -> bool:
    named = [data for name, data in known.items() if name in message.source]
    return bool(named) and all(any(text.strip() in data for data in named) for text in message.always)
