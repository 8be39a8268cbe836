"""The table of settings that count beside others, against the lines of mindformers that it names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from swapconf.upstream.conditional import LINES_OF, TABLE
from swapconf.upstream.facts import installed
from swapconf.upstream.versions import same

pytestmark = pytest.mark.mindspore

_AROUND = 8  # lines
# what is dropped where nothing names it
_UNNAMED = {"context.jit_level", "context.enable_graph_kernel", "context.memory_offload"}


def test_the_lines_speak_of_the_settings() -> None:
    version = installed().mindformers
    if version is None or not same(version, LINES_OF):
        pytest.skip(f"the lines are those of mindformers {LINES_OF}")
    spec = find_spec("mindformers")
    assert spec is not None
    assert spec.origin is not None
    for entry in (one for one in TABLE if "MindSpore" not in one.source):
        name, _, number = entry.source.partition(":")
        lines = (Path(spec.origin).parent / name).read_text(encoding="utf-8").splitlines()
        near = "\n".join(lines[max(0, int(number) - _AROUND) : int(number) + _AROUND])
        words = [path.rpartition(".")[2] for path in entry.path]
        assert any(word in near for word in words) or entry.path[0] in _UNNAMED, entry.path
        assert "did not take effect" in near or entry.path[0] not in _UNNAMED
