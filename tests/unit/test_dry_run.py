from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from swapconf.cli.dryrun_table import print_reports
from swapconf.config.cluster import Cluster
from swapconf.config.yaml_document import parse
from swapconf.dryrun import report_cache
from swapconf.dryrun.outcome import LayerMoves, LayerRecomputes, RankOutcome, RankReport
from swapconf.dryrun.rank_order import RankOrder, cluster_of, ranks_of
from swapconf.dryrun.report_record import as_record
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import joined, phrase, plural, show
from tests.unit.test_peak import LOSS

YAML = "parallel_config: {data_parallel: 2, model_parallel: 2, pipeline_stage: 4, context_parallel: 1}\n"
CLUSTER = Cluster(data_parallel=2, model_parallel=2, num_stages=4)


def test_the_cluster_is_read_from_the_yaml() -> None:
    assert cluster_of(parse(YAML, "a.yaml")) == CLUSTER
    assert cluster_of(parse("parallel_config: {data_parallel: x}\n", "a.yaml")) == Cluster()
    assert CLUSTER.num_devices == 16


def test_ranks() -> None:
    assert ranks_of("stages", CLUSTER) == (0, 4, 8, 12)
    assert ranks_of("all", CLUSTER) == tuple(range(16))
    assert ranks_of("7,0,7", CLUSTER) == (0, 7)
    assert [CLUSTER.stage_of(rank) for rank in (0, 3, 4, 15)] == [0, 0, 1, 3]


@pytest.mark.parametrize(
    ("words", "told"), [("16", "no rank 16"), ("some", "neither"), ("-1", "no rank -1"), ("", "neither")]
)
def test_wrong_ranks(words: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ranks_of(words, CLUSTER)


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RankOrder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return RankOrder(document=parse(YAML, "a.yaml"), rank=4)


REPORT = RankReport(
    file="a.yaml",
    rank=4,
    stage=1,
    level=1,
    outcome=RankOutcome.COMPLETED,
    used_peak_bytes=5,
    seconds=1.5,
    moved=(LayerMoves("0", 2, 64),),
    recomputed=(LayerRecomputes("1", 7),),
    strategy_lines=("Set op_swap at layer 0: .attention, value=1",),
    findings=(
        Finding(
            origin=Origin(file="a.yaml", line=1, column=2, path="x"),
            rule="r",
            severity=Severity.NOTE,
            message="m",
            hint="h",
        ),
    ),
)


def test_a_report_comes_back_from_the_cache(order: RankOrder) -> None:
    assert report_cache.find(order) is None
    report_cache.store(order, REPORT)
    assert report_cache.find(order) == REPORT


def test_what_holds_the_peak_comes_back_too(order: RankOrder) -> None:
    report = replace(REPORT, peak=replace(LOSS, host_optimizer_bytes=7))
    report_cache.store(order, report)
    assert report_cache.find(order) == report


def test_a_report_of_a_rank_without_a_graph_comes_back_too(order: RankOrder) -> None:
    report = replace(REPORT, recomputed=None)
    report_cache.store(order, report)
    assert report_cache.find(order) == report


def test_the_record_of_a_report_tells_what_is_recomputed() -> None:
    assert as_record(REPORT)["recomputed"] == [{"layer": "1", "kernels": 7}]
    assert as_record(replace(REPORT, recomputed=None))["recomputed"] is None


def test_the_table_tells_what_is_recomputed(capsys: pytest.CaptureFixture[str]) -> None:
    print_reports([REPORT, replace(REPORT, recomputed=None)], None)
    head, first, second, *_ = capsys.readouterr().out.splitlines()
    assert "recomputed" in head
    assert "7 kernels" in first
    assert "kernel" not in second


FILES = plural(2, "{count} file", "{count} files")
WORDED = replace(
    REPORT,
    detail=phrase("nothing found in {files}", files=FILES),
    fold_note=joined("; ", [FILES, "a note"]),
    findings=(replace(REPORT.findings[0], message=phrase("nothing found in {files}", files="x"), hint=FILES),),
)


def test_a_phrase_stays_one_in_the_cache(order: RankOrder, chinese: None) -> None:
    report_cache.store(order, WORDED)
    found = report_cache.find(order)
    assert found == WORDED
    assert (show(found.detail), show(found.fold_note)) == ("在2个文件中没有发现问题", "2个文件；a note")
    assert found.findings[0].as_record() == WORDED.findings[0].as_record()
    assert show(found.findings[0].hint) == "2个文件"


@pytest.mark.parametrize(
    "packed",
    [
        [],
        ["a", ""],
        ["{", "", {}],
        ["{}", "", {}],
        ["{a}", "", {}],
        ["{a.b}", "", {"a": 1}],
        [1, "", {}],
        ["a", "b", {}],
        ["a", "", []],
        ["a", "", {"b": [1]}],
        ["{a:c}", "", {"a": -1}],
        ["{a:>99999999999999}", "", {"a": "b"}],
        {"a": "b"},
        None,
        1,
    ],
)
@pytest.mark.parametrize("place", ["detail", "fold_note", "hint"])
def test_a_damaged_phrase_is_no_report(order: RankOrder, packed: object, place: str) -> None:
    report_cache.store(order, WORDED)
    (entry,) = report_cache.folder().iterdir()
    content = json.loads(entry.read_text())
    (content["findings"][0] if place in content["findings"][0] else content)[place] = packed
    entry.write_text(json.dumps(content))
    assert report_cache.find(order) is None


def test_a_record_is_in_the_language_in_use_and_one_to_keep_is_not(chinese: None) -> None:
    shown, kept = as_record(WORDED), as_record(WORDED, worded=str)
    assert (shown["detail"], kept["detail"]) == ("在2个文件中没有发现问题", "nothing found in 2 files")
    assert kept["findings"][0]["hint"] == "2 files"
    assert shown["outcome"] == "completed"


def test_another_order_is_another_entry(order: RankOrder) -> None:
    report_cache.store(order, REPORT)
    changed = parse(YAML.replace("model_parallel: 2", "model_parallel: 1"), "a.yaml")
    assert report_cache.find(RankOrder(document=order.document, rank=0)) is None
    assert report_cache.find(RankOrder(document=order.document, rank=4, plain=True)) is None
    assert report_cache.find(RankOrder(document=order.document, rank=4, steps=5)) is None
    assert report_cache.find(RankOrder(document=changed, rank=4)) is None


@pytest.mark.parametrize(
    ("name", "is_same"), [("MS_DEV_SIDE_EFFECT_LOAD_ELIM", False), ("HCCL_BUFFSIZE", False), ("HOSTNAME", True)]
)
def test_variables_of_mindspore_and_hccl_are_part_of_an_order(
    name: str, is_same: bool, order: RankOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_cache.store(order, REPORT)
    monkeypatch.setenv(name, "3")
    assert (report_cache.find(order) is not None) is is_same


@pytest.mark.parametrize("content", ["", "{", "[]", '{"outcome": "no such"}'])
def test_a_damaged_entry_is_no_entry(order: RankOrder, content: str) -> None:
    report_cache.store(order, REPORT)
    (entry,) = report_cache.folder().iterdir()
    entry.write_text(content)
    assert report_cache.find(order) is None


def test_nothing_half_written_stays(order: RankOrder) -> None:
    report_cache.store(order, REPORT)
    assert [path.suffix for path in report_cache.folder().iterdir()] == [".json"]
