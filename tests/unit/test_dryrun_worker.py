"""What the child of a dry run takes from mindformers, where its generations differ."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from swapconf.dryrun import worker


def fabricated(monkeypatch: pytest.MonkeyPatch, home: str) -> list[str]:
    """A mindformers that has ``set_output_path`` in the module ``home`` only; the folders that are set."""
    told: list[str] = []
    for name in ("mindformers", "mindformers.tools", "mindformers.utils", home):
        module = ModuleType(name)
        module.__path__ = []
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        monkeypatch.setitem(sys.modules, name, module)
    vars(sys.modules[home])["set_output_path"] = told.append
    return told


@pytest.mark.parametrize("home", ["mindformers.tools.utils", "mindformers.utils.file_utils"])
def test_the_output_folder_is_set_in_every_generation(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = fabricated(monkeypatch, home)
    worker._set_output_path("./output")
    assert told == ["./output"]
