"""What tests of several files share: where things are, what was recorded in the shipped traces, what a YAML means."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tarfile
from atexit import register
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.config import overrides
from swapconf.config.nodes import Document, from_plain, nowhere
from swapconf.decide.strategy import Strategy
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.study.settings import NONE, Settings
from swapconf.study.study import Study, study_document
from swapconf.trace import trace_folder
from swapconf.trace.lifetimes import Lifetimes
from swapconf.trace.trace import Trace
from swapconf.upstream import dropped
from swapconf.upstream.facts import Versions

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "configs" / "llama2_7b" / "example1_default_swap.yaml"
TRACES = ROOT / "tests" / "traces"
ARCHIVE = "trace.tar.xz"
NAMES = sorted(folder.name for folder in TRACES.iterdir() if (folder / "memory_block.csv").exists())
CORPUS = Path(os.environ["SWAPCONF_CORPUS"]) if os.environ.get("SWAPCONF_CORPUS") else None
RECORDED_WITH = Versions(mindspore="2.9.0", mindformers="1.9.0")  # the traces of this repository
AS_WRITTEN = Settings(apply=dropped.KEYS)  # how random strategies were recorded: what mindformers drops counts


@cache
def golden(name: str | Path) -> Trace:
    """A trace, by its name in tests/traces or its folder."""
    folder = TRACES / name
    return packed(folder) if (folder / ARCHIVE).exists() else trace_folder.read(folder, rank=0)


@cache
def packed(folder: Path) -> Trace:
    """A trace that is kept in an archive; in a folder, as its launch graph is read when it is asked for."""
    return trace_folder.read(unpacked(folder), rank=0)


@cache
def unpacked(folder: Path) -> Path:
    """All files of a trace that is kept in an archive, and what stands beside that."""
    place = Path(mkdtemp(dir=scratch("packed")))
    for file in folder.iterdir():
        if file.name != ARCHIVE:
            shutil.copy(file, place)
    with tarfile.open(folder / ARCHIVE) as files:
        for member in files.getmembers():  # Python 3.11.3 and older have no filter for all of them at once
            content = files.extractfile(member)
            assert content is not None, f"{member.name} is no file"
            data = content.read()
            assert not re.search(rb"File:/", data), f"{folder}: {member.name} tells the folders of a machine"
            (place / Path(member.name).name).write_bytes(data)
    return place


@cache
def scratch(name: str) -> Path:
    """A folder of this process, which goes with it."""
    folder = TemporaryDirectory(prefix=f"swapconf-{name}-", ignore_cleanup_errors=True)
    register(folder.cleanup)
    return Path(folder.name)


@cache
def columns(name: str) -> Lifetimes:
    return lifetimes(golden(name))


def document_of(file: str | Path, *changes: str) -> Document:
    """A YAML with some keys changed, each as ``path=value``."""
    document = overrides.read(["--config", str(file)], changes)
    assert document is not None
    return document


def study_of(file: str | Path, *changes: str, versions: Versions = RECORDED_WITH, settings: Settings = NONE) -> Study:
    """What a YAML means, with the keys in the environment of the tests."""
    return study_document(document_of(file, *changes), versions, os.environ, settings)


def study_of_values(
    values: Any,
    file: str = "train.yaml",
    versions: Versions | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Settings = NONE,
) -> Study:
    """What a YAML with these values, mostly a mapping, means for any versions and in an empty environment."""
    return study_document(from_plain(values, nowhere(file)), versions or Versions(), environment or {}, settings)


def strategy_of(file: str | Path, *changes: str, versions: Versions = RECORDED_WITH) -> Strategy:
    strategy = study_of(file, *changes, versions=versions).strategy
    assert strategy is not None
    return strategy


def invoke(*words: str | Path, answer: str | None = None, environment: dict[str, str] | None = None) -> Result:
    """``swapconf WORD...`` in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], input=answer, env=environment)


def heed_ctrl_c() -> None:
    """For a child before it becomes another program: it inherits that an interrupt is ignored, as it is in whatever a
    script starts in the background (``nohup scripts/test.sh &``)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
