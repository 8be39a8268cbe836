"""One list of columns makes the table that a person reads and the record that a program gets."""

from __future__ import annotations

from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.report_record import COLUMNS, as_record
from swapconf.memory.cluster_view import ClusterView, RankRow
from swapconf.memory.rank_columns import PEAKS
from swapconf.report.cluster_page import figures_table
from swapconf.words.columns import Column, PrintedTable, milliseconds, of_part, record, size, table, words

Item = tuple[str, int, float]
ITEMS: tuple[Column[Item], ...] = (
    words("name", lambda item: item[0], "name"),
    size("size", lambda item: item[1], "size_bytes"),
    milliseconds("takes ms", lambda item: item[2], "step_us"),
    Column(key="twice", value=lambda item: 2 * item[1]),
    Column(title="first letter", shown=lambda item: item[0][0]),
)


def test_a_table_has_what_has_a_title_and_a_record_what_has_a_key() -> None:
    item = ("norm", 2 << 20, 1500.0)
    assert table(ITEMS, [item]) == PrintedTable(
        ("name", "size", "takes ms", "first letter"), [("norm", "2.0M", "1.500", "n")], frozenset({"name"})
    )
    assert record(ITEMS, item) == {"name": "norm", "size_bytes": 2 << 20, "step_us": 1500.0, "twice": 4 << 20}


def test_columns_of_a_part_tell_the_same_of_the_whole() -> None:
    def first(items: list[Item]) -> Item:
        return items[0]

    whole = [("norm", 2 << 20, 1500.0), ("mlp", 1, 2.0)]
    of_first = tuple(of_part(ITEMS, first))
    assert table(of_first, [whole]) == table(ITEMS, whole[:1])
    assert record(of_first, whole) == record(ITEMS, whole[0])


def test_all_that_the_table_of_dry_runs_shows_is_in_its_json_form() -> None:
    report = RankReport(
        file="a.yaml", rank=1, stage=0, level=1, outcome=RankOutcome.COMPLETED, used_peak_bytes=5, host_bytes=7
    )
    found = as_record(report)
    assert all(column.title and column.key for column in COLUMNS)
    assert {column.key: found[column.key] for column in COLUMNS} == record(COLUMNS, report)


def test_the_page_of_all_stages_has_the_peaks_of_the_table() -> None:
    row = RankRow(rank=0, stage=0, outcome="completed", is_good=True, origin="", used_peak_bytes=1 << 20)
    view = ClusterView(title="a", num_devices=1, num_stages=1, cards_per_host=8, rows=(row,))
    head, rows, _ = figures_table(view)
    first = head.index(PEAKS[0].title)
    assert head[first : first + len(PEAKS)] == tuple(column.title for column in PEAKS)
    assert rows[0][first : first + len(PEAKS)] == tuple(column.shown(row) for column in PEAKS)
