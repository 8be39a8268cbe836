"""swapconf.dryrun.came_to: how far a child came, from what it leaves behind; and what is said of its log."""

from __future__ import annotations

import json
from pathlib import Path

from swapconf.dryrun.came_to import Came, Reader, Station, came_to, peak_bytes
from swapconf.dryrun.job import Folder
from swapconf.dryrun.outcome import RankOutcome


def test_from_the_model_to_its_steps(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert came_to(folder) == "while the model was built"
    folder.flags.write_text("{}")
    assert came_to(folder) == "while the graph was compiled or in step 1"
    assert peak_bytes(folder) is None
    folder.result.write_text(json.dumps({"steps": 1, "max_memory_allocated_bytes": 1024}))
    assert (came_to(folder), peak_bytes(folder)) == ("in step 2", 1024)


def test_nonsense_in_the_files_of_a_child_tells_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.flags.write_text("{}")
    for content in ('{"steps": "2"}', '{"steps": -1, "max_memory_allocated_bytes": 5}', "[", '{"steps": 3}'):
        folder.result.write_text(content)
        assert peak_bytes(folder) is None


def test_where_the_log_is() -> None:
    assert RankOutcome.STOPPED.remedy("there/worker.log") == "correct the config; the whole log is there/worker.log"
    assert RankOutcome.CRASHED.remedy() == "try a smaller backward_prefetch; `--keep DIR` keeps the whole log"


LINE = "[INFO] PIPELINE(7,7f0,python):2026-11-22 [pipeline.cc:404] operator()] Status record: {} {} action.\n"


def test_a_log_that_grows_tells_the_part_of_compiling(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    reader = Reader(folder)
    assert reader.look() == Came(Station.STARTING)
    folder.log.write_text("")
    assert reader.look() == Came(Station.STARTING)
    with folder.log.open("a") as log:
        log.write("mindformers says something\n")
        log.flush()
        assert reader.look() == Came(Station.BUILDING)
        folder.flags.write_text("{}")
        assert reader.look() == Came(Station.COMPILING)
        log.write(LINE.format("start", "type_inference") + LINE.format("end", "type_inference"))
        log.flush()
        assert reader.look() == Came(Station.COMPILING, "type_inference")
        whole = LINE.format("start", "parallel-infer-symbol")
        log.write(whole[:-9])
        log.flush()
        assert reader.look().action == "type_inference"
        log.write(whole[-9:])
        log.flush()
        assert reader.look().action == "parallel-infer-symbol"
        assert came_to(folder) == "while the graph was compiled (parallel-infer-symbol)"
        log.write("x" * 5000 + "\n" + LINE.format("start", "execute") + LINE.format("end", "execute"))
        log.flush()
        assert reader.look() == Came(Station.RUNNING, step=1)
        assert came_to(folder) == "in step 1"
    folder.result.write_text(json.dumps({"steps": 1}))
    assert reader.look() == Came(Station.RUNNING, step=2)
    folder.result.write_text(json.dumps({"steps": 2, "is_trained": False}))
    assert reader.look() == Came(Station.RUNNING, step=3)
    folder.result.write_text(json.dumps({"steps": 2, "is_trained": True}))
    assert reader.look() == Came(Station.ENDING)
    assert came_to(folder) == "while it wrote its trace"


def test_how_far_in_words() -> None:
    assert [
        came.words
        for came in (
            Came(Station.STARTING),
            Came(Station.COMPILING, "optimize"),
            Came(Station.COMPILING),
            Came(Station.RUNNING, step=2),
        )
    ] == ["starting", "compiling (optimize)", "compiling", "running step 2"]
