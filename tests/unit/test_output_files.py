"""What a command is told to write is written whole or not at all; what stands in the way is told in one wording."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swapconf.files.writing import replace_by_copy
from swapconf.memory.with_workspace import grow
from swapconf.trace import trace_folder, trace_writer
from swapconf.words import extras
from tests.helpers import ROOT, invoke

CONFIG = ROOT / "configs/small/example1_default_swap.yaml"
TRACE = ROOT / "tests/traces/llama_l2_none"
OUT = "out.file"
OF_TRACES = ROOT / "tests/traces/llama.yaml"
# words of the command line, and the file that is written
WRITES = {
    "check": (["check", str(CONFIG), "--format", "json", "--output", OUT], OUT),
    "check --fix": (["check", "--fix", "--yes", "y.yaml"], "y.yaml"),
    "schema": (["schema", "--write", "out.json"], "out.json"),
    "migrate --out": (["migrate", str(CONFIG), "--to", "pynative", "--accept-loss", "--out", OUT], OUT),
    "migrate --in-place": (["migrate", "y.yaml", "--to", "pynative", "--accept-loss", "--in-place"], "y.yaml"),
    "modeline": (["modeline", "--schema", "swapconf.schema.json", "y.yaml"], "y.yaml"),
    "memory": (["memory", str(TRACE), "--html", OUT], OUT),
    "timeline": (["timeline", str(TRACE), "--trace-view", OUT], OUT),
    "whatif": (["whatif", str(TRACE), "--config", str(OF_TRACES), "--html", OUT], OUT),
    "compare": (["compare", str(TRACE), "--html", OUT], OUT),
}
PAGES = [name for name in WRITES if "--html" in WRITES[name][0]]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / OUT).write_text("old")
    (tmp_path / "out.json").write_text("old")
    shutil.copy(ROOT / "docs/mistakes.yaml", "y.yaml")


@contextmanager
def _full_disk() -> Iterator[None]:
    """No file can have more than a few bytes; Python ignores the signal, and the write fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", WRITES)
def test_on_a_full_disk_the_old_file_stays_and_nothing_else(tmp_path: Path, name: str) -> None:
    words, file = WRITES[name]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with _full_disk():
        result = invoke(*words)
    assert result.exit_code == 2, result.output
    assert f"{file} cannot be written (File too large)" in result.output
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", [name for name in WRITES if WRITES[name][1] != "y.yaml" and name != "schema"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_done(name: str) -> None:
    words, file = WRITES[name]
    result = invoke(*(f"no/{file}" if word == file else word for word in words))
    assert result.exit_code == 2
    assert result.output.splitlines() == [f"Error: no/{file} cannot be written (there is no folder no)"]
    result = invoke(*("." if word == file else word for word in words))
    assert result.exit_code == 2
    assert result.output.splitlines() == ["Error: . cannot be written (Is a directory)"]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("package", ["jinja2", "plotly"])
def test_a_page_that_cannot_be_drawn_is_told_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = invoke(*WRITES[name][0])
    assert result.exit_code == 2
    assert result.output.splitlines() == [f"Error: --html needs {package}: pip install jinja2 plotly"]


def test_the_executed_order_of_a_kept_trace_is_copied_whole(tmp_path: Path) -> None:
    grown = grow(trace_folder.read(TRACE, 0))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "execute_order.csv").write_text("old")
    with _full_disk(), pytest.raises(OSError, match="File too large"):
        replace_by_copy(tmp_path / "kept" / "execute_order.csv", TRACE / "execute_order.csv")
    assert (tmp_path / "kept" / "execute_order.csv").read_text() == "old"
    trace_writer.write(grown.trace, grown.workspace, TRACE / "execute_order.csv", tmp_path / "kept")
    assert (tmp_path / "kept" / "execute_order.csv").read_bytes() == (TRACE / "execute_order.csv").read_bytes()


def test_a_file_that_others_must_not_write_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK))
    result = invoke(*WRITES["check"][0])
    assert f"{OUT} cannot be written (Permission denied)" in result.output
    assert Path(OUT).read_text() == "old"


def test_the_packages_of_each_extra_are_those_of_the_project() -> None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in extras.PACKAGES.items():
        assert sorted(packages.values()) == sorted(name.partition(">=")[0] for name in listed[extra])


FROM_AN_INDEX = re.compile(r"""\b(?:pipx?|uv|conda)\b.*\b(?:install|add|run)\s(?:-\S+\s+)*['"]?swapconf\b(?![/\\])""")


@pytest.mark.parametrize(
    ("line", "is_guilty"),
    [
        ("pip install swapconf", True),
        ("python -m pip install -U 'swapconf[report]'", True),
        ("pipx install swapconf", True),
        ("uv pip install swapconf==0.1.0", True),
        ("pip install ./swapconf", False),
        ("pip install -e '.[report]'", False),
        ("pip install swapconf/", False),
        ("pip install jinja2 plotly  # for swapconf", False),
    ],
)
def test_what_counts_as_an_installation_from_an_index(line: str, is_guilty: bool) -> None:
    assert bool(FROM_AN_INDEX.search(line)) == is_guilty


def test_no_text_tells_to_install_swapconf_from_an_index() -> None:
    """The name is not ours on any index."""
    suffixes = {".py", ".md", ".po", ".j2", ".json", ".sh", ".yaml", ".toml", ""}
    folders = [ROOT / name for name in ("swapconf", "docs", "scripts", "configs", ".ci")]
    files = [*(file for folder in folders for file in folder.rglob("*")), *ROOT.iterdir()]
    texts = [file for file in files if file.is_file() and file.suffix in suffixes and file.name != ".git"]
    assert len(texts) > 300
    assert [file for file in texts if FROM_AN_INDEX.search(file.read_text(encoding="utf-8", errors="replace"))] == []
