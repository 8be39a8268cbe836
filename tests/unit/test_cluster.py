"""All stages of a job side by side: what hosts hold, which rank is tightest, and the page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from swapconf.cli import cluster as lines
from swapconf.cli.main import main
from swapconf.config.cluster import Cluster
from swapconf.dryrun import environment, fan_out
from swapconf.dryrun.cluster import cluster_view
from swapconf.dryrun.outcome import RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder
from swapconf.dryrun.report_record import as_record
from swapconf.dryrun.verdict import _remedy
from swapconf.memory.cluster_view import ClusterView, HostRow, RankRow, hosts
from swapconf.memory.whole_device import Beside, PartName, exact
from swapconf.report.next_steps import after_cluster
from swapconf.words import phrases
from swapconf.words.units import GIB
from tests.unit.test_peak import LAYERS, LOSS, OPTIMIZER, STATE

pytest.importorskip("jinja2")

from swapconf.report.cluster_page import figures_table, hosts_table, page, parts_table, remedies, verdict

CLUSTER = Cluster(data_parallel=4, num_stages=4)
BLANK = RankReport(file="train.yaml", rank=0, stage=0, level=1, outcome=RankOutcome.COMPLETED, limit_bytes=60 * GIB)
HOSTILE = "<script>alert(1)</script>"


def reports() -> list[RankReport]:
    """Four stages: the second is the optimizer's, the last the loss's and the tightest, the third has no peak."""
    found = [
        replace(
            BLANK,
            rank=4 * stage,
            stage=stage,
            peak=peak,
            host_bytes=host * GIB,
            used_peak_bytes=peak.at.used_bytes,
            with_fragments_peak_bytes=peak.at.used_bytes + GIB,
        )
        for stage, peak, host in (
            (0, LAYERS, 2),
            (1, replace(OPTIMIZER, host_optimizer_bytes=3 * GIB), 3),
            (3, LOSS, 0),
        )
    ]
    found.insert(2, replace(BLANK, rank=8, stage=2, outcome=RankOutcome.TIMED_OUT))
    return found


def view(**options: object) -> ClusterView:
    return cluster_view("train.yaml", reports(), CLUSTER, **options)  # type: ignore[arg-type]


def test_the_ranks_of_a_host_share_its_memory() -> None:
    sizes = {0: 5, 1: 7, 2: None, 3: 1}
    assert hosts(16, 4, 4, sizes) == tuple(
        HostRow(first=stage, last=stage, cards=((stage, 4),), host_bytes=None if size is None else 4 * size)
        for stage, size in sizes.items()
    )
    assert hosts(16, 4, 6, sizes) == (
        HostRow(first=0, last=0, cards=((0, 4), (1, 2)), host_bytes=4 * 5 + 2 * 7),
        HostRow(first=1, last=1, cards=((1, 2), (2, 4)), host_bytes=None),
        HostRow(first=2, last=2, cards=((3, 4),), host_bytes=4),
    )
    assert hosts(4, 2, 8, {0: 5, 1: 7}) == (HostRow(first=0, last=0, cards=((0, 2), (1, 2)), host_bytes=24),)


def test_hosts_that_hold_alike_are_one_row_and_none_is_lost() -> None:
    found = hosts(1024, 8, 8, dict.fromkeys(range(8), 3))
    assert [(row.first, row.last, row.host_bytes) for row in found] == [
        (16 * stage, 16 * stage + 15, 24) for stage in range(8)
    ]
    for cards in (1, 3, 7, 64, 1000):
        rows = hosts(96, 3, cards, {0: 1, 1: 1, 2: 1})
        assert sum((row.last - row.first + 1) * (row.host_bytes or 0) for row in rows) == 96


def test_the_tightest_rank_has_the_least_headroom() -> None:
    tightest = view().tightest
    assert tightest is not None
    assert tightest.rank == 12
    assert tightest.headroom_bytes == 60 * GIB - LOSS.at.used_bytes - GIB
    unlimited = [replace(report, limit_bytes=None) for report in reports()]
    without = cluster_view("train.yaml", unlimited, CLUSTER).tightest
    assert without is not None
    assert (without.rank, without.headroom_bytes) == (12, None)
    own = [replace(report, limit_bytes=32 * GIB if report.rank == 0 else report.limit_bytes) for report in reports()]
    narrow = cluster_view("train.yaml", own, CLUSTER).tightest
    assert narrow is not None
    assert narrow.rank == 0


def test_the_budget_counts_where_it_is_less_than_the_limit() -> None:
    assert [row.limit_bytes for row in view(budget_bytes=30 * GIB).rows] == 4 * [30 * GIB]
    assert [row.limit_bytes for row in view(budget_bytes=70 * GIB).rows] == 4 * [60 * GIB]
    assert "does not fit: 31.70G with fragments, 1.70G more than the 30.00G" in verdict(view(budget_bytes=30 * GIB))[0]


def test_a_budget_that_reaches_into_what_is_beside_the_pool_leaves_less() -> None:
    idle = exact(PartName.IDLE, 30 * GIB, "measured")
    held = [replace(report, beside=Beside(parts=(idle,), card_bytes=64 * GIB)) for report in reports()]
    for budget, left in ((20, 20), (34, 34), (50, 34)):
        rows = cluster_view("train.yaml", held, CLUSTER, budget_bytes=budget * GIB).rows
        assert [row.limit_bytes for row in rows] == 4 * [left * GIB]
    assert [row.limit_bytes for row in cluster_view("train.yaml", held, CLUSTER).rows] == 4 * [60 * GIB]


def test_one_line_tells_of_the_tightest_rank() -> None:
    assert lines.tightest_line(view()).startswith(
        "tightest is rank 12 (stage 3): head and loss hold 18.80G of 30.70G; no swap or recompute of layers lowers"
    )
    alone = cluster_view("train.yaml", reports()[1:2], CLUSTER)
    assert lines.tightest_line(alone).startswith("rank 4: the peak is the optimizer's; ")
    assert lines.tightest_line(alone).endswith("; the host memory is the optimizer's state, not activations")
    assert lines.tightest_line(cluster_view("train.yaml", reports()[2:3], CLUSTER)) == ""


def test_the_record_of_a_report_has_the_peak_and_the_same_words() -> None:
    found = as_record(reports()[1])["peak"]
    assert found["at"]["when"] == "optimizer"
    assert {part["part"]: part["bytes"] for part in found["at"]["parts"]}["weights"] == 4 * GIB
    assert found["advice"].startswith("the peak is the optimizer's; swap and recompute of layers cannot lower it; what")
    assert found["host"] == "the host memory is the optimizer's state, not activations"
    assert as_record(reports()[2])["peak"] is None


def test_tables_of_the_page() -> None:
    assert [row[:3] for row in figures_table(view()).rows] == [
        ("0", "0", "completed"),
        ("1", "4", "completed"),
        ("2", "8", "reached its time limit"),
        ("3", "12", "completed"),
    ]
    table = parts_table(view())
    assert table.head == ("at the peak", "stage 0", "stage 1", "stage 3")
    assert ("head and loss", "-", "-", "18.80G") in table.rows
    assert table.rows[-2:] == [
        ("together", "30.00G", "18.00G", "30.70G"),
        ("highest without activations of layers", "12.00G", "18.00G", "29.90G"),
    ]
    assert hosts_table(view(cards_per_host=8)).rows == [
        ("0", "4 of stage 0, 4 of stage 1", "20.00G"),
        ("1", "4 of stage 2, 4 of stage 3", "-"),
    ]
    first, second = remedies(view())
    assert first.startswith("stage 1: what helps: parallel.enable_parallel_optimizer")
    assert second.startswith("stage 3: what helps: more model_parallel")


def test_equal_ranks_of_a_stage_are_one_bar() -> None:
    twins = [replace(reports()[0], rank=rank) for rank in range(4)]
    found = cluster_view("train.yaml", [*twins, *reports()[1:]], CLUSTER)
    assert page([found], "1").count('class="bar"') == 4
    assert "stage 0 (ranks 0-3)" in page([found], "1")


def test_the_page_stands_by_itself_and_nothing_in_a_name_is_markup() -> None:
    text = page([replace(view(), title=HOSTILE, kept_in=HOSTILE)], "1")
    assert HOSTILE not in text
    assert "<script" not in text
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src &#39;none&#39;" in text
    assert "dry run level 1 (operator workspace excluded)" in text


def test_the_page_says_how_many_cards_a_host_has_and_whether_that_was_told() -> None:
    assert "8 cards a host, as of an Atlas 800" in page([view()], "1")
    assert "Cards of a host: 6." in page([view(cards_per_host=6)], "1")


def test_a_limit_far_above_all_peaks_is_not_drawn() -> None:
    assert 'class="limit" style' in page([view()], "1")
    small = [replace(report, limit_bytes=600 * GIB) for report in reports()]
    assert 'class="limit" style' not in page([cluster_view("train.yaml", small, CLUSTER)], "1")


def test_a_rank_that_ran_out_of_time_shows_what_it_came_to() -> None:
    late = replace(BLANK, rank=8, stage=2, outcome=RankOutcome.TIMED_OUT, used_peak_bytes=5 * GIB)
    found = cluster_view("train.yaml", [late], CLUSTER)
    assert '<div class="size">5.00G</div>' in page([found], "1")
    assert verdict(found) == ["No rank came as far as its peak."]


def test_what_does_not_fit_and_cannot_is_told_what_helps_instead() -> None:
    for peak, limit, word in (
        (LOSS, 20, "model_parallel"),
        (OPTIMIZER, 10, "enable_parallel_optimizer"),
        (LAYERS, 20, "swap or recompute more"),
        (LAYERS, 10, "at best to 12.00G"),
        (None, 10, "swap or recompute more"),
    ):
        assert word in _remedy(peak, limit * GIB)


def test_a_peak_of_a_folded_run_is_called_so() -> None:
    folded = [
        replace(
            report,
            folded=(4, 6),
            fold_note="extrapolated from 4 and 6 of 80 equal layers",
            peak=replace(STATE, is_grown=True),
        )
        for report in reports()
    ]
    text = page([cluster_view("train.yaml", folded, CLUSTER)], "1")
    assert "extrapolated from 4 and 6 of 80 equal layers" in text
    assert "scaled to the extrapolated peak" in text
    assert "scaled to the extrapolated peak" not in page([view()], "1")


def test_the_page_in_the_other_language(monkeypatch: pytest.MonkeyPatch) -> None:
    phrases.use("zh")
    try:
        text = page([view()], "1")
    finally:
        phrases.use(phrases.ENGLISH)
    assert '<html lang="zh">' in text
    assert "优化器状态" in text


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (view(), "swapconf dryrun train.yaml --ranks 8 --keep traces"),
        (replace(view(), rows=view().rows[:2]), "swapconf dryrun train.yaml --ranks 0 --keep traces"),
        (
            replace(view(), rows=view().rows[3:], kept_in="my traces"),
            "swapconf memory 'my traces/rank_12' --html memory.html",
        ),
        (
            replace(view(), rows=(RankRow(rank=0, stage=0, outcome="compiled", is_good=True, origin=""),)),
            "swapconf dryrun train.yaml --level 1 --html cluster.html",
        ),
    ],
)
def test_the_page_ends_with_the_command_to_run_next(given: ClusterView, command: str) -> None:
    assert after_cluster([given]).command == command
    text = page([given], "1")
    end = text[text.index("What to do next") : text.index("<footer>")]
    assert unescape(end[end.index("<code>") + 6 : end.index("</code>")]) == command
    known = main.get_command(click.Context(main), shlex.split(command)[1])
    assert known is not None
    assert {word for word in shlex.split(command) if word.startswith("--")} <= {
        option for parameter in known.params for option in parameter.opts
    }


def test_the_command_writes_the_page_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dry_runs(orders: Sequence[RankOrder], _jobs: int, _dask: str | None) -> Iterator[RankReport]:
        for order in orders:
            assert order.board is not None
            yield replace(
                BLANK,
                file=order.document.file,
                rank=order.rank,
                stage=order.rank // 8,
                peak=LOSS,
                used_peak_bytes=LOSS.at.used_bytes,
                with_fragments_peak_bytes=LOSS.at.used_bytes,
            )

    monkeypatch.setattr(fan_out, "dry_run_all", dry_runs)
    monkeypatch.setattr(environment, "prepare", lambda *_: None)
    file = str(Path(__file__).parents[1] / "traces/llama.yaml")
    words = [
        "dryrun",
        file,
        "--set",
        "parallel_config.pipeline_stage=2",
        "--no-cache",
        "--html",
        str(tmp_path / "c.html"),
    ]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("head and loss hold 18.80G of 30.70G") == 1
    assert "tightest is rank 0 (stage 0)" in result.stdout
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "8 cards a host, as of an Atlas 800" in text
    assert "16 devices, stages: 2" in text
    result = CliRunner().invoke(main, [*words, "--cards-per-host", "1", "--keep", str(tmp_path), "--format", "json"])
    assert [report["peak"]["at"]["when"] for report in json.loads(result.stdout)] == ["forward", "forward"]
    text = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "Cards of a host: 1." in text
    assert f"swapconf memory {tmp_path}/rank_0 --html memory.html" in text
