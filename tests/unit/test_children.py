"""What is told of the children of a dry run while they run."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from swapconf.cli import children as module
from swapconf.cli.children import Children, line_of
from swapconf.config.cluster import Cluster
from swapconf.config.yaml_document import parse
from swapconf.dryrun import board, capacity
from swapconf.dryrun.board import Child, Watch, entered
from swapconf.dryrun.came_to import Came, Station
from swapconf.dryrun.job import Folder, Job
from swapconf.dryrun.launch import Ending, launch
from swapconf.dryrun.rank_order import RankOrder
from swapconf.dryrun.time_left import left_seconds
from tests.unit.test_came_to import LINE


def _order(place: Path | None, file: str, rank: int, title: str = "") -> RankOrder:
    return RankOrder(document=parse("seed: 0", file), rank=rank, board=place, title=title)


def test_a_child_is_on_the_board_while_it_runs(tmp_path: Path) -> None:
    place, folder = tmp_path / "board", Folder(tmp_path / "rank_4")
    place.mkdir()
    folder.path.mkdir()
    watch = Watch(place)
    with entered(_order(place, "b.yaml", 4), "layers_6", folder), entered(_order(place, "a.yaml", 9), "", folder):
        start = time.time()
        first, second = watch.children(start + 5)
        assert (first.file, first.rank, second.rank, second.part) == ("a.yaml", 9, 4, "layers_6")
        assert first.came == Came(Station.STARTING)
        assert second.seconds == pytest.approx(5, abs=1)
        folder.log.write_text("something")
        assert [child.since for child in watch.children(start + 7)] == [0, 0]
        assert [child.since for child in watch.children(start + 9)] == [2, 2]
    assert watch.children() == []


def test_a_process_that_runs_the_same_rank_of_another_layout_begins_anew(tmp_path: Path) -> None:
    first, second = Folder(tmp_path / "first"), Folder(tmp_path / "second")
    for folder in (first, second):
        folder.path.mkdir()
    watch = Watch(tmp_path)
    with entered(_order(tmp_path, "a.yaml", 0), "layers_4", first):
        first.log.write_text("something")
        (ahead,) = watch.children(time.time() + 60)
    with entered(_order(tmp_path, "a.yaml", 0), "layers_4", second):
        (child,) = watch.children(time.time() + 61)
    assert ahead.came.station is not Station.STARTING
    assert (child.came.station, child.since) == (Station.STARTING, 0)


def test_a_board_that_is_not_there_stops_nothing(tmp_path: Path) -> None:
    with entered(_order(tmp_path / "elsewhere", "a.yaml", 0), "", Folder(tmp_path)):
        pass
    with entered(_order(None, "a.yaml", 0), "", Folder(tmp_path)):
        pass
    (tmp_path / "broken.json").write_text('{"rank": 3}')
    assert Watch(tmp_path).children() == []


def test_of_two_children_the_later_one_gives_way_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short: list[bool] = [False]
    monkeypatch.setattr(capacity, "is_short", lambda: short[0])
    monkeypatch.setattr(board, "_LOOK_SECONDS", 0.01)
    left = tmp_path / "999999999-0-whole.json"  # of a process that was ended
    left.write_text(json.dumps({"start": 0.0}))
    with entered(_order(tmp_path, "a.yaml", 0), "layers_24", Folder(tmp_path)) as first:
        with entered(_order(tmp_path, "a.yaml", 8), "layers_24", Folder(tmp_path)) as second:
            assert not second.gives_way()
            short[0] = True
            assert (first.gives_way(), second.gives_way()) == (False, True)
        ended = threading.Thread(target=second.wait, daemon=True)
        ended.start()
        ended.join(0.1)
        assert ended.is_alive()
    ended.join(5)
    assert not ended.is_alive()
    with entered(_order(None, "a.yaml", 0), "", Folder(tmp_path)) as alone:
        assert not alone.gives_way()


def test_a_child_that_gives_way_is_ended(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    job, folder = Job(settings={}, cluster=Cluster(), rank=0), Folder(tmp_path / "rank_0")
    found = launch(job, folder, dict(os.environ), str(python), gives_way=lambda: True)
    assert found.ending is Ending.GAVE_WAY
    assert found.seconds < 30


def test_the_time_left_follows_from_the_shares_of_earlier_runs() -> None:
    compiling, step = Came(Station.COMPILING, "optimize"), Came(Station.RUNNING, step=2)
    early = left_seconds(compiling, seconds=30, since=0)
    assert early is not None
    assert early > 30
    later = left_seconds(compiling, seconds=40, since=10)
    assert later == pytest.approx(early - 10)
    assert left_seconds(compiling, seconds=9999, since=9969) == 0
    late = left_seconds(step, seconds=100, since=0)
    assert late is not None
    assert late < 30
    for unknown in (Came(Station.STARTING), Came(Station.BUILDING), Came(Station.COMPILING, "something_new")):
        assert left_seconds(unknown, seconds=30, since=10) is None


def test_a_run_that_writes_its_trace_is_nearly_done() -> None:
    left = left_seconds(Came(Station.ENDING), seconds=100, since=0)
    assert left is not None
    assert left < 3


def test_the_line_of_a_child() -> None:
    child = Child("there/a.yaml", "", 4, "", Came(Station.STARTING), 12.3, 12.3)
    assert line_of(child, many_files=False) == "rank 4: starting, 12 s"
    folded = Child("there/a.yaml", "", 4, "layers_6", Came(Station.COMPILING, "optimize"), 40, 10)
    assert line_of(folded, many_files=True).startswith("a.yaml: rank 4, layers_6: compiling (optimize), 40 s, about ")


def test_runs_of_one_rank_are_told_by_what_they_are_of(tmp_path: Path) -> None:
    orders = [_order(tmp_path, "a.yaml", 0, title) for title in ("dp8", "dp4 tp2")]
    with entered(orders[0], "", Folder(tmp_path / "one")), entered(orders[1], "layers_6", Folder(tmp_path / "two")):
        told = [line_of(child, many_files=False) for child in Watch(tmp_path).children()]
    assert told[0].startswith("dp4 tp2: rank 0, layers_6: ")
    assert told[1].startswith("dp8: rank 0: ")


def test_a_log_has_one_line_for_each_station(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    folder = Folder(tmp_path)
    folder.log.write_text("x")
    folder.flags.write_text("{}")
    with Children(2, "dry run") as shown, entered(_order(shown.board, "a.yaml", 4), "", folder):
        for name in ("type_inference", "inline", "optimize"):
            with folder.log.open("a") as log:
                log.write(LINE.format("start", name))
            time.sleep(0.1)
        shown.step()
        folder.result.write_text(json.dumps({"steps": 1}))
        time.sleep(0.2)
    assert not shown.board.exists()
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in told] == [told[0].partition(",")[0], "rank 4: running step 2"]
    assert told[0].startswith("rank 4: compiling")
    assert told[1].endswith("(1 of 2 ranks done)")


def test_a_child_is_asked_to_tell_its_part_of_compiling(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "logs $MS_SUBMODULE_LOG_v"\n')
    python.chmod(0o755)
    base = {name: value for name, value in os.environ.items() if name != "MS_SUBMODULE_LOG_v"}
    for variables, told in ((base, "{PIPELINE:1}"), ({**base, "MS_SUBMODULE_LOG_v": "{PASS:0}"}, "{PASS:0}")):
        launch(Job(settings={}, cluster=Cluster(), rank=0), Folder(tmp_path / "rank_0"), variables, str(python))
        assert (tmp_path / "rank_0/worker.log").read_text().strip() == f"logs {told}"
