"""scripts/evidence/agreement_rows.py: what each seed gave is kept by release and level, and told on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import agreement_rows
import pytest
from agreement_cases import Case, families_of
from agreement_judge import Figures, Verdict
from agreement_rows import Row, Setting, add, newest, page, ranges, read, row_of
from random_shapes import FAMILIES, Shape

from swapconf.upstream.launch_orders import MEASURED, Order

SHAPE = Shape(family="llama", config="", settings={}, layout="", rank=0, num_layers=2, num_stages=1, num_interleaves=1)
NOTE = "drawn first, and judged once"
SETTING = Setting("2.10.0", "2.1.0", "O0", 7)
FIGURES = Figures(
    baseline=2000,
    peak=1000,
    predicted_peak=1001,
    inside=1000,
    predicted_inside=1020,
    host=10,
    predicted_host=10,
    moves=4,
    predicted_moves=4,
    safe=1100,
    order=Order.MINDSPORE,
)


def verdict(number: int, figures: Figures | None = FIGURES, misses: tuple[str, ...] = ()) -> Verdict:
    return Verdict(case=Case(seed=7, number=number, kind="", shape=SHAPE), figures=figures, misses=misses)


def row() -> Row:
    quick = replace(FIGURES, predicted_peak=1011, moves=5, safe=990, order=Order.RUN)
    return row_of([verdict(6, quick), verdict(0), verdict(1, None, ("died",))], SETTING, NOTE)


def test_a_row_counts_what_its_cases_gave() -> None:
    found = row()
    assert found.setting == SETTING
    assert (found.numbers, found.cases, found.ran, found.in_order) == ("0-1 6", 3, 2, 1)
    assert (found.median, found.worst, found.far, found.far_inside) == (0.6, 1.1, 1, 2)
    assert (found.moves, found.host, found.below, found.over) == (1, 2, 1, 4.5)
    assert (found.disagree, found.missed, found.note) == (0, 1, NOTE)


def test_of_cases_none_of_which_ran_there_is_no_row() -> None:
    with pytest.raises(ValueError, match="no case of seed 7 ran"):
        row_of([verdict(0, None)], SETTING)


def test_a_row_takes_the_place_of_an_older_one_of_its_seed_only(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    assert read(file) == []
    old, other, new = row(), replace(row(), seed=8), replace(row(), worst=0.5)
    for one in (old, other, new):
        add(file, one)
    assert read(file) == [new, other]


def test_cases_are_drawn_of_families_that_the_release_can_build() -> None:
    assert families_of("1.9.0") == families_of("2.1.0") == FAMILIES
    assert set(FAMILIES) - set(families_of("1.8.0")) == {"telechat3", "telechat3_moe"}
    assert families_of("1.7.0") == ("llama", "glm2")


def test_numbers_in_a_row_are_told_by_their_ends() -> None:
    assert ranges([3, 0, 1, 2, 9]) == "0-3 9"
    assert ranges([]) == ""


def test_a_page_opens_with_the_newest_seed_of_each_release_and_level_from_old_to_new() -> None:
    rows = [row(), replace(row(), seed=8, worst=0.25), replace(row(), mindspore="2.9.0", mindformers="1.9.0")]
    assert [(one.mindspore, one.seed) for one in newest(rows)] == [("2.9.0", 7), ("2.10.0", 8)]
    lines = list(page(rows))
    counts = f"1 of 2 | 1 of 2 | 1 of 2 | 0 of 3 | 1 | {NOTE}"
    opened = lines[: lines.index("## Every seed")]
    assert [line for line in opened if line.startswith("| 2.")] == [
        f"| 2.9.0 + 1.9.0 | O0 | 3, 1 by the quick way | 0.600 %, 1.100 % | {counts} |",
        f"| 2.10.0 + 2.1.0 | O0 | 3, 1 by the quick way | 0.600 %, 0.250 % | {counts} |",
    ]
    assert sum("| 7: 0-1 6 |" in line for line in lines) == 2


def test_what_is_told_of_a_release_as_measured_has_a_row() -> None:
    told = {(one.mindspore, one.level) for one in MEASURED if one.said == agreement_rows.TOLD}
    assert told
    assert told <= {(one.mindspore, one.level) for one in read(agreement_rows.ROWS)}


def test_the_page_is_made_of_the_rows() -> None:
    made = "\n".join(page(read(agreement_rows.ROWS))).rstrip()
    assert agreement_rows.PAGE.read_text(encoding="utf-8").partition("\n\n## History")[0].rstrip() == made
