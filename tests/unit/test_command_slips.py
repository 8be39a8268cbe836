"""Slips on the command line, names that are none, and switches of Python: what is said of them."""

from __future__ import annotations

import gettext
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from swapconf.cli import click_texts
from swapconf.cli.common import neutral
from swapconf.cli.main import COMMANDS, main
from swapconf.decide.rules import every_rule
from swapconf.report import github
from swapconf.report.sweep_chart import chart
from swapconf.whatif.sweep import Point
from swapconf.words import docstrings, phrases
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import joined, phrase
from tests.helpers import ROOT, invoke

TRACE = ROOT / "tests/traces/llama_l2_none"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["chek", "x.yaml"], "no command is named 'chek'; `check` was probably meant"),
        (["fragmentaton"], "`fragmentation` was probably meant"),
        (["register_pth"], "`register-path` was probably meant"),
        (["rules", "op-unescaped"], "no rule is named 'op-unescaped'; `op-unescaped-dot` was probably meant"),
        (["rules", "zzz"], "no rule named 'zzz'; `swapconf rules` lists them"),
        (["zzz"], "No such command 'zzz'."),
    ],
)
def test_a_name_that_is_nearly_one_is_named(words: list[str], told: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize("command", ["memory", "timeline", "fragmentation"])
def test_where_the_traces_are_is_told(tmp_path: Path, command: str) -> None:
    assert "there is no such folder" in invoke(command, tmp_path / "none").output
    (tmp_path / "file").touch()
    assert "this is a file, not the folder of a trace" in invoke(command, tmp_path / "file").output
    assert "run `swapconf dryrun --keep DIR`" in invoke(command, tmp_path).output
    result = invoke(command, TRACE.parent)
    assert result.exit_code == 2
    assert f"name one of {TRACE.parent}/llama_l2_layerswap_n1, {TRACE}" in result.output


def test_of_the_traces_of_runs_below_some_are_named(tmp_path: Path) -> None:
    for name in range(12):
        (tmp_path / f"run_{name:02}" / "rank_0").mkdir(parents=True)
        (tmp_path / f"run_{name:02}" / "rank_0" / "memory_block.csv").touch()
    output = invoke("memory", tmp_path).output
    assert "run_07/rank_0, ..." in output
    assert "run_08" not in output


def test_a_line_break_in_a_name_is_no_line_break() -> None:
    assert neutral(phrase("a\n{name}", name="b\nc")) == "a\nb\\nc"
    assert neutral(joined("\n", ["a", phrase("b {name}", name="c\x1b\nd")])) == "a\nb c\\x1b\\nd"
    assert neutral("a\nb") == "a\nb"


@pytest.mark.parametrize("command", ["memory", "timeline", "fragmentation"])
def test_a_line_break_in_a_folder_or_a_card_starts_no_line(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "trace\n0 errors"
    shutil.copytree(TRACE, folder)
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"name": "card\n0 errors", "figures": {}}))
    output = invoke(command, folder, *((("--hardware", card)) if command == "timeline" else ())).output
    assert "\\n0 errors" in output
    assert not [line for line in output.splitlines() if line.startswith("0 errors")]


def test_an_annotation_of_github_holds_no_escape_of_a_file_name() -> None:
    found = Finding(
        origin=Origin(file="a\x1b[2J\u202e.yaml", line=1, column=1),
        rule="r",
        severity=Severity.ERROR,
        message="m",
        hint="h",
    )
    [line] = github.as_commands([found])
    assert line.isprintable()
    assert r"file=a\x1b[2J\u202e.yaml,line=1" in line


def test_without_docstrings_every_rule_has_its_page_and_every_command_its_help() -> None:
    code = (
        "import sys; from swapconf.words import docstrings; from swapconf.cli.main import COMMANDS, main; "
        "from swapconf.study.pages import pages; "
        "assert docstrings.__doc__ is None; import json; "
        "print(json.dumps([dict(pages()), main.help, {n: main.get_command(None, n).help for n in COMMANDS}]))"
    )
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    pages, help_text, helps = json.loads(done.stdout)
    for module in every_rule():
        assert pages[module.RULE] == docstrings.of(module)
    assert all(page.startswith(f"{name}:") for name, page in pages.items())
    assert " ".join(help_text.split()) == " ".join((main.help or "").split())
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert " ".join(helps[name].split()) == " ".join((command.help or "").split())


class _Marked(gettext.NullTranslations):
    def gettext(self, message: str) -> str:
        return f"<{message}>"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check", "--strictt", "x"], "<Error: <No such option '--strictt'.> <Did you mean '--strict'?>>"),
        (["check", "--format", "x", "y"], "<Error: <Invalid value for '--format': <'x' is not one of 'text',"),
        (["check"], "<Error: <Missing argument> 'FILE|FOLDER...'.>"),
        (["timeline", "a", "b"], "<Error: <Got unexpected extra argument (b)>>"),
        (["check", "--jobs", "0", "x"], "<Error: <Invalid value for '--jobs': <0 is not in the range x>=1.>>>"),
        (["check", "--jobs"], "<Error: <Option '--jobs' requires an argument.>>"),
        (["zzz"], "<Error: <No such command 'zzz'.>>"),
        (["whatif", "none", "--config", "x"], "<Directory 'none' does not exist.>"),
        (["zzz"], "<Try 'swapconf --help' for help.>"),
    ],
)
def test_what_click_says_is_asked_for_in_the_language_in_use(
    monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.setattr(phrases, "_catalogue", lambda language: _Marked())
    output = CliRunner().invoke(main, ["--lang", "zh", *words], prog_name="swapconf").output
    assert told.lower() in output.lower().replace("\n", " "), output
    phrases.use(phrases.ENGLISH)
    assert "<" not in invoke(*words).output


def test_what_click_is_known_to_say_it_does_say() -> None:
    """In the installed version; two texts are those of older ones."""
    folder = Path(click.__file__).parent
    code = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    unknown = {text for text in click_texts.TEXTS if json.dumps(text) not in code}
    assert unknown <= {
        "No such option: {name}",
        "(Possible options: {possibilities})",
        "{value!r} is not {choice}.",
        "No such option {name!r}.",
        "No such command {name!r}.",
        "Did you mean {possibility}?",
        "(Did you mean one of: {possibilities}?)",
    }


def test_a_sweep_in_which_nothing_changes_is_one_line() -> None:
    points = [Point(prefetch=number, peak_bytes=(100 << 20) + number, twice_bytes=0) for number in range(1, 50)]
    lines = [str(line) for line in chart(points)]
    assert next(line.strip() for line in lines if "100.0M" in line) == "used peak: 100.0M at every prefetch"
    assert len(lines) == 3


def test_one_card_holds_and_several_layers_are_several(tmp_path: Path) -> None:
    swapped = TRACE.parent / "llama_l2_layerswap_n1"
    assert "1 card holds" in invoke("timeline", swapped, "--host-memory", "1MB").output
    assert "8 cards hold" in invoke("timeline", swapped, "--host-memory", "1MB", "--cards-per-host", "8").output
    text = (ROOT / "docs/mistakes.yaml").read_text(encoding="utf-8")
    (tmp_path / "x.yaml").write_text(text.replace("layers: [0, 1, 2, 4]", "layers: [8, 9]"), encoding="utf-8")
    assert "there are no layers 8, 9: the model has 4 layers" in invoke("check", tmp_path / "x.yaml").output
