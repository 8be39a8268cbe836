"""Names from files and command lines, as they come out: nothing in them is markup, a formula or a command."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from swapconf.cli.common import neutral, say
from swapconf.cli.main import main
from swapconf.cli.tables import print_rows
from swapconf.files.csv_cells import cell
from swapconf.report import findings_text as report
from swapconf.report.memory_figures import plotly_text
from swapconf.words.findings import Finding, Origin, Severity

ESCAPE, TITLE, BIDI, HALF = "\x1b[2J", "\x1b]0;owned\x07", "\u202egpj.exe", "\udcff"
HOSTILE = f"a{ESCAPE}{TITLE}{BIDI}{HALF}\r\x85\u2028b"
COMMANDS = ("\x1b", "\x07", "\u202e", "\r", "\x85", "\u2028")


def run_command(body: Callable[[], None]) -> str:
    result = CliRunner().invoke(click.command()(body), catch_exceptions=False)
    return result.output


def found(text: str) -> Finding:
    return Finding(
        origin=Origin(file=text, line=1, column=1, path=text),
        rule="r",
        severity=Severity.ERROR,
        message=text,
        hint=text,
    )


def said(lines: Iterable[tuple[str, object]]) -> None:
    for line, _ in lines:
        say(line)


@pytest.mark.parametrize(
    "body",
    [
        lambda: say(HOSTILE),
        lambda: print_rows((HOSTILE, "figure"), [(HOSTILE, "1")], (HOSTILE,), title=HOSTILE),
        lambda: said(report.as_lines([found(HOSTILE)])),
        lambda: click.echo(report.as_json([found(HOSTILE)])),
    ],
    ids=["lines", "tables", "findings", "json"],
)
def test_nothing_that_is_printed_commands_the_terminal(body: Callable[[], None]) -> None:
    output = run_command(body)
    assert "gpj.exe" in output
    assert not [sign for sign in COMMANDS if sign in output]


def test_json_gives_the_name_back_as_it_is() -> None:
    assert json.loads(report.as_json([found(HOSTILE)]))[0]["message"] == HOSTILE


@given(st.text())
def test_lines_stay_lines_and_what_is_visible_stays(text: str) -> None:
    assert all(line.isprintable() for line in neutral(text).split("\n"))
    assert neutral(neutral(text)) == neutral(text)
    if all(line.isprintable() for line in text.split("\n")):
        assert neutral(text) == text


def test_markup_of_rich_is_text() -> None:
    assert "[red]x[/red] [link=http://a]" in run_command(
        lambda: print_rows(("name",), [("[red]x[/red] [link=http://a]",)], ("name",))
    )


def test_the_text_of_a_refused_command_line_is_neutral(tmp_path: Path) -> None:
    """The names in a --predicted file are somebody else's."""
    config, file = tmp_path / "train.yaml", tmp_path / "predicted.json"
    config.write_text("model: {model_config: {type: LlamaConfig, num_layers: 2}}\n")
    file.write_text(
        json.dumps(
            [
                {
                    "file": f"{name}{ESCAPE}.yaml",
                    "rank": 0,
                    "used_peak_bytes": 1,
                    "with_fragments_peak_bytes": 1,
                    "origin": "x",
                }
                for name in "ab"
            ]
        )
    )
    result = CliRunner().invoke(main, ["verify", str(tmp_path), "--config", str(config), "--predicted", str(file)])
    assert result.exit_code == 2
    assert r"a\x1b[2J.yaml" in result.output
    assert "\x1b" not in result.output


def test_check_prints_a_hostile_yaml_and_a_hostile_path(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[2J\udcff.yaml"
    file.write_text(
        'swap_config: {swap: True, op_swap: [{op_name: "x\\e[2J\\u202e", layers: [0], '
        "backward_prefetch: 1}]}\n"
        "model: {model_config: {type: LlamaConfig, num_layers: 2}}\n",
        encoding="utf-8",
    )
    for form in ("text", "json"):
        result = CliRunner().invoke(main, ["check", "--format", form, str(file)])
        assert (result.exit_code, result.exception.__class__) == (1, SystemExit), result.output
        assert not [sign for sign in COMMANDS if sign in result.output]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"])
def test_no_cell_of_a_table_is_a_formula(name: str) -> None:
    text = StringIO()
    csv.writer(text).writerow((cell(name), 1))
    [[read, _]] = csv.reader(StringIO(text.getvalue()))
    assert read[0] == "'"


@given(st.text(st.characters(categories=("L", "N")), max_size=8), st.text())
def test_a_cell_is_one_line_and_usual_names_stay(name: str, any_text: str) -> None:
    assert cell(f"Default/{name}-op0") == f"Default/{name}-op0"
    assert cell(any_text).isprintable()
    assert not cell(any_text).startswith(("=", "+", "-", "@"))


def test_a_page_shows_a_change_of_writing_direction() -> None:
    assert plotly_text(BIDI) == r"\u202egpj.exe"
