"""What the child of a dry run takes from mindformers, where its generations differ."""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from swapconf.dryrun import worker


def fabricated(monkeypatch: pytest.MonkeyPatch, home: str) -> list[str]:
    """A mindformers that has ``set_output_path`` in the module ``home`` only; the folders that are set."""
    told: list[str] = []
    for name in [name for name in sys.modules if name.partition(".")[0] == "mindformers"]:
        monkeypatch.delitem(sys.modules, name)  # another test of this process may have loaded the real one
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


def test_the_peak_is_told_after_each_step_without_any_callback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that is ended in its second step has told the peak of the first."""

    class Manager:
        called = 0

        def on_train_step_end(self, _run_context: object) -> None:
            type(self).called += 1

    peaks = iter((100, 120, 130))
    modules = {name: ModuleType(name) for name in ("mindspore", "mindspore.train", "mindspore.train.callback")}
    vars(modules["mindspore"])["runtime"] = SimpleNamespace(
        max_memory_allocated=lambda: next(peaks), max_memory_reserved=lambda: 1 << 30
    )
    vars(modules["mindspore.train.callback"])["_CallbackManager"] = Manager
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    result = worker.Result(tmp_path / "result.json")
    result.write_after_each_step(3)
    for step, peak in ((1, 100), (2, 120)):
        Manager().on_train_step_end(None)
        assert json.loads((tmp_path / "result.json").read_text()) == {
            "steps": step,
            "is_trained": False,
            "max_memory_allocated_bytes": peak,
            "max_memory_reserved_bytes": 1 << 30,
        }
    assert Manager.called == 2
