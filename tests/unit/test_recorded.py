"""scripts/evidence/recorded.py: recorded runs that are not kept are made again of what is told of them."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest
import recorded

from swapconf.study.study import study_document
from swapconf.trace import launch_graph, trace_folder
from swapconf.words.findings import has_errors
from tests.helpers import AS_WRITTEN, RECORDED_WITH, TRACES, packed, unpacked

KEPT = TRACES / "in_order" / "llama_sends_awaited"


CASES = recorded.recorded()
SHARE = 10  # CI takes one case of so many
MARKED = [
    pytest.param(case, id=case.name, marks=() if place % SHARE == 0 else pytest.mark.thorough)
    for place, case in enumerate(CASES)
]


def test_none_of_them_is_kept() -> None:
    assert CASES
    assert not {case.name for case in CASES} & {folder.name for folder in (TRACES / "in_order").iterdir()}


@pytest.mark.parametrize("case", MARKED)
def test_each_is_a_yaml_that_runs_and_strategies_that_do_something(case: recorded.Recorded) -> None:
    for run in (None, *({key: run[key] for key in ("swap_config", "recompute_config")} for run in case.runs)):
        found = study_document(case.document(run), RECORDED_WITH, {}, AS_WRITTEN)
        assert run is not None or not has_errors(found.findings)
        assert found.strategy is not None
        outcomes = (one for layer in found.strategy.layers for one in layer.plan.outcomes)
        assert any(one.sites for one in outcomes) == (run is not None)


def test_a_prediction_is_held_against_what_was_recorded() -> None:
    runs = json.loads((KEPT / "strategies.json").read_text())
    case = recorded.Recorded(name="kept", config=str(KEPT / "model.yaml"), settings={}, rank=0, runs=(runs[0],))
    ((told, is_worse),) = recorded.judged(case, Path(packed(KEPT).folder))
    assert (told, is_worse) == ("kept-0: +0.000%", False)
    far = recorded.Recorded(
        name="kept", config=case.config, settings={}, rank=0, runs=({**runs[0], "used_peak_bytes": 1},)
    )
    assert next(recorded.judged(far, Path(packed(KEPT).folder)))[1]
    other = recorded.Recorded(
        name="kept", config=case.config, settings={}, rank=0, runs=({**runs[0], "launches": "another"},)
    )
    assert next(recorded.judged(other, Path(packed(KEPT).folder))) == ("kept-0: +0.000%, in another order", True)


def test_a_run_is_packed_without_what_the_machine_was(tmp_path: Path) -> None:
    run, target = tmp_path / "run", tmp_path / "packed"
    shutil.copytree(unpacked(KEPT), run)
    (run / "run.json").write_text(json.dumps({"settings": {"seed": 0}}))
    size = recorded.pack(run, target)
    assert size == (target / "trace.tar.xz").stat().st_size < (KEPT / "trace.tar.xz").stat().st_size
    assert (target / "model.yaml").read_text() == "seed: 0\n"
    with tarfile.open(target / "trace.tar.xz") as files:
        texts = {name: content.read() for name in files.getnames() if (content := files.extractfile(name))}
    assert set(texts) == {trace_folder.ORDER, trace_folder.BLOCKS, trace_folder.GRAPH, launch_graph.FILE}
    assert not any(b"File:" in text for text in texts.values())
    found, before = packed(target), packed(KEPT)
    assert list(found.blocks) == list(before.blocks)
    assert (found.kernels, found.tasks) == (before.kernels, before.tasks)
