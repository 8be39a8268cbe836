"""``swapconf memory`` as a user calls it."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.cells import cell_len
from rich.console import Console

from swapconf.memory.view import of_trace
from swapconf.report.memory_chart import HEIGHT, chart
from swapconf.report.memory_tables import layers_in_words, layers_table, operators_table
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.words import phrases
from swapconf.words.units import show_bytes
from tests.helpers import TRACES, columns, golden, invoke
from tests.unit.test_memory_view import view_of
from tests.unit.test_policies import blocks

SWAPPED = TRACES / "llama_l3_ffnnorm_swap_ffn_recompute"
PLAIN = TRACES / "llama_l2_none"


def run(*words: str | Path, environment: dict[str, str] | None = None) -> Result:
    return invoke("memory", *words, environment=environment)


def records(*words: str | Path) -> list[dict[str, Any]]:
    result = run(*words, "--format", "json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_json_has_the_peaks_and_what_makes_them() -> None:
    first, second = records(SWAPPED, PLAIN)
    trace = golden(SWAPPED.name)
    assert first["trace"] == str(SWAPPED)
    assert first["used_peak_bytes"] == trace.used_peak_bytes
    assert first["with_fragments_peak_bytes"] == trace.with_fragments_peak_bytes
    assert first["reserved_bytes"] >= first["with_fragments_peak_bytes"]
    assert first["peak_event"] == columns(SWAPPED.name).used.peak_time
    assert set(first["categories"]) <= {category.value for category in CATEGORIES}
    assert sum(first["categories"].values()) == first["used_peak_bytes"]
    assert sum(row["bytes"] for row in first["at_peak"]) == first["used_peak_bytes"]
    assert first["origin"] == "measured"
    assert second["trace"] == str(PLAIN)


def test_what_the_dry_run_recorded_is_believed(tmp_path: Path) -> None:
    shutil.copytree(PLAIN, tmp_path / "rank_5")
    report = {"rank": 5, "origin": "dry run level 1 (operator workspace excluded)", "reserved_bytes": 2 << 30}
    (tmp_path / "rank_5" / "run.json").write_text(json.dumps({"report": report}))
    (row,) = records(tmp_path)
    assert (row["rank"], row["origin"], row["reserved_bytes"]) == (5, report["origin"], 2 << 30)


def test_text_shows_peaks_chart_and_tables() -> None:
    result = run(SWAPPED)
    assert result.exit_code == 0
    trace = golden(SWAPPED.name)
    for size in (trace.used_peak_bytes, trace.with_fragments_peak_bytes):
        assert show_bytes(size) in result.output
    for words in ("forward activations", "swap buffers", "^ peak", "outside", "operator"):
        assert words in result.output
    assert "\x1b" not in result.output
    assert result.output.isascii()


def test_a_terminal_has_colours_and_no_color_takes_them_away() -> None:
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "90", "NO_COLOR": ""}
    coloured = run(SWAPPED, environment=terminal).output
    assert "█ weights" in re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert "\x1b[34m" in coloured
    letters = run(SWAPPED, environment={**terminal, "NO_COLOR": "1"}).output
    assert "W weights" in letters
    assert not re.search(r"\x1b\[[\d;]*3\dm", letters)


def test_a_folder_without_a_trace_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "has no memory_block.csv" in result.output


# --- the chart ------------------------------------------------------------------------------------------------------


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_chart_is_as_wide_as_it_may_be(width: int) -> None:
    view = of_trace(golden(SWAPPED.name), "t", "o")
    drawn = lines(chart(view, width, in_colour=False).plain)
    assert max(map(len, drawn)) <= width
    assert all(line == line.rstrip() for line in drawn)
    assert sum(line.count("forward activations") for line in drawn) == 1
    assert max(map(len, drawn[:HEIGHT])) == width


@pytest.mark.parametrize("width", [25, 40, 80])
def test_a_chinese_character_is_two_columns_wide(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrases, "_shown_in", "zh")
    drawn = lines(chart(of_trace(golden(SWAPPED.name), "t", "o"), width, in_colour=False).plain)
    assert max(map(cell_len, drawn)) <= width
    assert "权重" in drawn[HEIGHT + 1]


def test_letters_stand_for_categories_and_the_peak_is_marked_below_its_column() -> None:
    view = view_of(blocks((0, 1000, 512, Category.WEIGHT), (498, 1000, 512), (500, 502, 1024, Category.SWAP)))
    drawn = lines(chart(view, 60, in_colour=False, height=4).plain)
    rows, foot, legend = drawn[:4], drawn[4], drawn[5]
    place = foot.index("^")
    assert [row[place] for row in rows] == ["S", "S", "A", "W"]
    assert rows[0].count("S") == 1
    assert "2.0K at event 500" in foot
    assert legend.split() == ["W", "weights", "A", "forward", "activations", "S", "swap", "buffers"]


def test_in_colour_the_top_is_drawn_in_eighths() -> None:
    view = view_of(blocks((0, 50, 5120, Category.WEIGHT), (50, 100, 8192, Category.WEIGHT)))
    text = chart(view, 60, in_colour=True, height=1)
    assert "▅" in text.plain
    assert "█" in text.plain
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=60)
    with console.capture() as captured:
        console.print(text)
    assert "\x1b[34m" in captured.get()


def test_nothing_used_is_a_sentence() -> None:
    assert chart(view_of(blocks()), 80, in_colour=False).plain == "No device memory was used."


# --- the tables -----------------------------------------------------------------------------------------------------


def test_rows_that_do_not_fit_are_summed() -> None:
    view = of_trace(golden(SWAPPED.name), "t", "o")
    *kept, rest = operators_table(view, 3).rows
    assert [row[0] for row in kept] == [total.operator for total in view.operators[:3]]
    assert rest[0] == f"{len(view.operators) - 3} more"
    assert rest[-1] == show_bytes(sum(total.size_bytes for total in view.operators[3:]))
    assert [row[0] for row in layers_table(view, 2).rows][-1] == f"{len(view.layer_bytes) - 2} more"
    assert [row[0] for row in layers_table(view).rows] == ["outside", "0", "1", "2"]


def test_layers_are_told_in_runs() -> None:
    assert layers_in_words((-1, 0, 1, 2, 5)) == "outside, 0-2, 5"


def test_a_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31mb"
    shutil.copytree(PLAIN, folder)
    assert "\x1b" not in run(folder).output


# --- the page -------------------------------------------------------------------------------------------------------


def test_the_page_is_written(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    file = tmp_path / "memory.html"
    result = run(PLAIN, SWAPPED, "--format", "json", "--html", file)
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == 2
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    refused = run(PLAIN, "--html", tmp_path / "nowhere" / "memory.html")
    assert refused.exit_code == 2
    assert "cannot be written" in refused.output


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.delitem(sys.modules, "swapconf.report.memory_page", raising=False)
    monkeypatch.delattr("swapconf.report.memory_page", raising=False)
    result = run(PLAIN, "--html", tmp_path / "memory.html")
    assert result.exit_code == 2
    assert "plotly" in result.output
    assert "pip install jinja2 plotly" in result.output


def test_text_needs_neither_jinja_nor_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jinja2", "plotly"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run(PLAIN).exit_code == 0


def test_a_prediction_counts_in_events_of_its_trace() -> None:
    view = replace(view_of(blocks((0, 100 << 20, 512), (50 << 20, 60 << 20, 512))), ticks=1 << 20)
    assert view.peak_event == 50
    assert "at event 50" in chart(view, 80, in_colour=False).plain
