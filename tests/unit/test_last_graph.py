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
from swapconf.trace import fused_kernels, launch_graph
from swapconf.words.findings import Severity
from tests.helpers import EXAMPLE, study_of
from tests.unit import graph_texts
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


def ran(
    tmp_path: Path, text: str = "", script: str = SCRIPT, *, prints_graph: bool = True, prints_fused: bool = False
) -> Folder:
    folder = Folder(tmp_path / "rank_1")
    (tmp_path / "text").write_text(text)
    (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    job = Job(settings={}, cluster=Cluster(num_stages=2), rank=1, prints_graph=prints_graph, prints_fused=prints_fused)
    given = {"MS_DEV_SAVE_GRAPHS": "3", "MS_DEV_SAVE_GRAPHS_PATH": str(tmp_path / "mine"), "MS_DEV_DUMP_IR_FORMAT": "0"}
    variables = {**os.environ, **given, "TEXT": str(tmp_path / "text")}
    assert launch(job, folder, variables, str(tmp_path / "python")).code == 0
    last_graph.collect(folder, job)
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


def kept(asked: Study, level: int = 1, mindspore: str = "2.9.0", *, is_kept: bool = True) -> tuple[bool, bool]:
    found = last_graph.prints(asked, level, mindspore, is_kept=is_kept)
    return found.graph, found.fused


FUSED = "context.jit_config.jit_level=O1"


def test_only_a_run_that_others_are_predicted_from_leaves_its_graph() -> None:
    plain = study("swap_config=", "recompute_config=")
    assert kept(plain) == (True, False)
    assert kept(plain, is_kept=False) == (False, False)
    assert kept(study('recompute_config={"recompute": false}', "swap_config=")) == (True, False)
    assert kept(plain, 0) == (False, False)
    assert kept(study()) == (False, False)
    assert kept(study("swap_config=", "recompute_config.recompute=[1]")) == (False, False)
    for mindspore in ("2.7.1", "2.7.2", "2.10.0"):
        assert kept(plain, 1, mindspore) == (True, False)
    for mindspore in ("2.7.0", "2.11.0", "", "of one's own"):
        assert kept(plain, 1, mindspore) == (False, False)


def test_each_run_with_fused_kernels_leaves_what_is_inside_them() -> None:
    assert kept(study(FUSED)) == kept(study(FUSED), is_kept=False) == (False, True)
    assert kept(study(FUSED, "swap_config=", "recompute_config=")) == (True, True)
    assert kept(study(FUSED), mindspore="2.7.2") == kept(study(FUSED), mindspore="2.10.0") == (False, True)
    assert kept(study(FUSED), 0) == kept(study(FUSED), mindspore="2.11.0") == (False, False)


def test_what_is_inside_fused_kernels_is_kept_beside_the_trace(tmp_path: Path) -> None:
    inside = f"{PLACE}/verbose_ir_files/graph_kernel"
    script = (
        f"{SCRIPT}\nmkdir -p {inside}\ncp {tmp_path}/cluster {inside}/0011_stage1_cluster_4_graph_kernel_cluster_7.ir"
    )
    script += f"\ncp {tmp_path}/last {inside}/0041_stage7_postprocess_7_add_attr_9.ir"
    (tmp_path / "cluster").write_text(graph_texts.CLUSTERED)
    (tmp_path / "last").write_text(graph_texts.SPLIT)
    folder = ran(tmp_path, graph_texts.LAUNCHED, script, prints_graph=False, prints_fused=True)
    assert files(folder) == {*ALWAYS, *TRACE, f"rank_1/{fused_kernels.FILE}"}
    assert list(fused_kernels.read(folder.path / "rank_1" / fused_kernels.FILE)) == [
        "Default/GraphKernel_Mul_fusion-op5"
    ]
    assert "MS_DEV_SAVE_GRAPHS=2" in folder.log.read_text()


def test_fused_kernels_that_cannot_be_read_are_no_fault_of_the_run(tmp_path: Path) -> None:
    folder = ran(tmp_path, graph_texts.LAUNCHED, prints_graph=False, prints_fused=True)
    assert files(folder) == {*ALWAYS, *TRACE}


def test_a_disk_too_full_for_the_graph_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, inside = last_graph.Prints(graph=True, fused=True), last_graph.Prints(graph=False, fused=True)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=(2 << 30) - 1))
    assert last_graph.no_space(tmp_path, 0, graph) == ()
    assert "inside fused kernels" in last_graph.no_space(tmp_path, 2 << 30, inside)[0].message
    (found,) = last_graph.no_space(tmp_path, 2 << 30, graph)
    assert (found.rule, found.severity, found.origin.file) == ("graph-not-kept", Severity.WARNING, str(tmp_path))
    assert "2.00G are free" in found.message
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 << 30))
    assert last_graph.no_space(tmp_path, 2 << 30, graph) == ()


def test_the_disk_that_is_needed_follows_from_the_layers_and_micro_batches_of_the_stage() -> None:
    def needed(*changes: str, fused: bool = False) -> int:
        return last_graph.needed_bytes(study(*changes), 0, last_graph.Prints(graph=True, fused=fused))

    deeper, longer = "model.model_config.num_layers=8", "runner_config.gradient_accumulation_steps=8"
    assert last_graph.needed_bytes(study(), 0, last_graph.Prints(graph=False, fused=False)) == 0
    assert needed() < needed(fused=True) < 2 << 30
    assert needed() < needed(deeper) < needed(deeper, longer)
    stages = ("parallel_config.pipeline_stage=2", "parallel_config.micro_batch_num=2")
    assert needed(deeper, *stages) == needed(deeper, "runner_config.gradient_accumulation_steps=1")
    assert needed("model.model_config.num_layers=80", longer) == needed("model.model_config.num_layers=800", longer)
    assert needed("model.model_config.num_layers=800") < 7 << 30
