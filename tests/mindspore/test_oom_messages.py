"""The texts by which `swapconf oom` knows MindSpore's messages stand in the libraries of the one that is there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from swapconf.postmortem.message import Framework, Message
from swapconf.postmortem.messages import MESSAGES

pytestmark = pytest.mark.mindspore

FOLDERS = ("lib", "lib/plugin", "lib/plugin/ascend")


@pytest.fixture(scope="module")
def libraries() -> dict[str, bytes]:
    spec = find_spec("mindspore")
    assert spec is not None
    assert spec.origin is not None
    place = Path(spec.origin).parent
    named = {word.strip(",;") for message in MESSAGES for word in message.source.split() if word.startswith("lib")}
    found = [path for folder in FOLDERS for path in (place / folder).glob("*.so*") if path.name in named]
    return {path.name: path.read_bytes() for path in found}


@pytest.mark.parametrize(
    "message",
    [one for one in MESSAGES if one.framework is Framework.MINDSPORE and "2.9.0" in one.versions],
    ids=lambda message: message.name,
)
def test_a_message_of_2_9_0_is_in_the_library_that_is_named(message: Message, libraries: dict[str, bytes]) -> None:
    named = [data for name, data in libraries.items() if name in message.source]
    assert named
    for text in message.always:
        assert any(text.strip() in data for data in named), text
