"""What MindSpore prints of its last graph, a shell script in its place: kept beside the trace, and nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from swapconf.config.cluster import Cluster
from swapconf.dryrun import last_graph
from swapconf.dryrun.job import Folder, Job
from swapconf.dryrun.launch import launch
from swapconf.study.study import Study
from swapconf.trace import launch_graph
from swapconf.words.findings import Severity
from tests.helpers import EXAMPLE, study_of
from tests.unit.graph_texts import printed

PLACE = "$MS_DEV_SAVE_GRAPHS_PATH/rank_1"
SCRIPT = f"""
env | grep MS_DEV
mkdir -p rank_1 {PLACE}/execute_order
echo blocks > rank_1/memory_block.csv
echo order > {PLACE}/execute_order/execute_order.csv
echo more > {PLACE}/after_opt.pb
cp $TEXT {PLACE}/graph_build_0_7.ir
"""


def ran(tmp_path: Path, text: str = "", script: str = SCRIPT, *, prints_graph: bool = True) -> Folder:
    folder = Folder(tmp_path / "rank_1")
    (tmp_path / "text").write_text(text)
    (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    job = Job(settings={}, cluster=Cluster(num_stages=2), rank=1, prints_graph=prints_graph)
    given = {"MS_DEV_SAVE_GRAPHS": "3", "MS_DEV_SAVE_GRAPHS_PATH": str(tmp_path / "mine"), "MS_DEV_DUMP_IR_FORMAT": "0"}
    variables = {**os.environ, **given, "TEXT": str(tmp_path / "text")}
    assert launch(job, folder, variables, str(tmp_path / "python")).code == 0
    last_graph.collect(folder, 1)
    last_graph.discard(folder)
    return folder


def files(folder: Folder) -> set[str]:
    return {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}


ALWAYS = {"config.yaml", "job.json", "worker.log"}
TRACE = {"rank_1/memory_block.csv", "rank_1/execute_order/execute_order.csv"}


def test_the_graph_is_kept_and_the_order_is_where_it_always_is(tmp_path: Path) -> None:
    folder = ran(tmp_path, printed())
    assert files(folder) == {*ALWAYS, *TRACE, launch_graph.FILE}
    assert len(launch_graph.read(folder.path / launch_graph.FILE)) == 7
    assert "MS_DEV_DUMP_IR_PASSES=graph_build" in folder.log.read_text()
    assert "MS_DEV_DUMP_IR_FORMAT" not in folder.log.read_text()


@pytest.mark.parametrize("text", ["", "of another MindSpore\n", printed(count=9)])
def test_a_graph_that_cannot_be_read_is_no_fault_of_the_run(tmp_path: Path, text: str) -> None:
    assert files(ran(tmp_path, text)) == {*ALWAYS, *TRACE}


def test_of_several_graphs_none_is_taken(tmp_path: Path) -> None:
    assert files(ran(tmp_path, printed(), f"{SCRIPT}\ncp $TEXT {PLACE}/graph_build_0_8.ir")) == {*ALWAYS, *TRACE}


def test_a_run_that_is_not_asked_for_it_prints_none_whatever_the_user_has_set(tmp_path: Path) -> None:
    folder = ran(tmp_path, printed(), "env | grep MS_DEV; exit 0", prints_graph=False)
    assert files(folder) == ALWAYS
    assert "MS_DEV" not in folder.log.read_text()


def test_the_graph_of_an_earlier_run_is_not_taken_for_that_of_a_later_one(tmp_path: Path) -> None:
    ran(tmp_path, printed())
    assert launch_graph.FILE not in files(ran(tmp_path, "", "exit 0", prints_graph=False))


def study(*changes: str) -> Study:
    return study_of(EXAMPLE, *changes)


def test_only_a_run_that_others_are_predicted_from_leaves_its_graph() -> None:
    plain = study("swap_config=", "recompute_config=")
    assert last_graph.is_worth(plain, 1, "2.9.0")
    assert last_graph.is_worth(study('recompute_config={"recompute": false}', "swap_config="), 1, "2.9.0")
    assert not last_graph.is_worth(plain, 0, "2.9.0")
    assert not last_graph.is_worth(study(), 1, "2.9.0")
    assert not last_graph.is_worth(study("swap_config=", "recompute_config.recompute=[1]"), 1, "2.9.0")
    for mindspore in ("2.7.2", "2.10.0", "", "of one's own"):
        assert not last_graph.is_worth(plain, 1, mindspore)


def test_a_disk_too_full_for_the_graph_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=(2 << 30) - 1))
    (found,) = last_graph.no_space(tmp_path, 2 << 30)
    assert (found.rule, found.severity, found.origin.file) == ("graph-not-kept", Severity.WARNING, str(tmp_path))
    assert "2.00G are free" in found.message
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 << 30))
    assert last_graph.no_space(tmp_path, 2 << 30) == ()


def test_the_disk_that_is_needed_follows_from_the_layers_and_micro_batches_of_the_stage() -> None:
    def needed(*changes: str) -> int:
        return last_graph.needed_bytes(study(*changes), 0)

    deeper, longer = "model.model_config.num_layers=8", "runner_config.gradient_accumulation_steps=8"
    assert needed() < 2 << 30
    assert needed() < needed(deeper) < needed(deeper, longer)
    stages = ("parallel_config.pipeline_stage=2", "parallel_config.micro_batch_num=2")
    assert needed(deeper, *stages) == needed(deeper, "runner_config.gradient_accumulation_steps=1")
    assert needed("model.model_config.num_layers=80", longer) == needed("model.model_config.num_layers=800", longer)
    assert needed("model.model_config.num_layers=800") < 7 << 30
