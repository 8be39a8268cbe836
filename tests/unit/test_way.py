"""In which order of launches a prediction was made, and for which release and level that was measured, is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from swapconf.cli.main import main
from swapconf.plan.modes import RECOMPUTED, uniform
from swapconf.plan.planned import Planned, Verdict
from swapconf.report.plan_text import order_lines
from swapconf.upstream import launch_orders
from swapconf.upstream.launch_orders import UNFUSED_LEVEL, Order, doubt, keeps_graph, measured
from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.whatif.way import Source, Way
from tests.helpers import TRACES, golden, packed, study_of
from tests.unit.planning import real_judge

GRAPHED = Source(mindspore="2.9.0", level=UNFUSED_LEVEL, has_graph=True, is_grown=False, making="swapconf dryrun X")
WITHOUT = replace(GRAPHED, has_graph=False)
READ = "2.7.1", "2.7.2", "2.9.0", "2.10.0"  # releases whose graphs were read
KEPT = {**dict.fromkeys(READ, True), "2.8.0": True, "2.10.1": True, "2.9.0+own": True} | {
    "2.7.0": False,
    "2.11.0": False,
    "3.0": False,
    "": False,
    "of one's own": False,
}


def test_mindspores_own_order_is_told_with_where_it_was_measured() -> None:
    told = Way(Order.MINDSPORE, GRAPHED).told
    assert told == (
        "memory in MindSpore's own order of launches, by its rules and the graph of this trace; measured with "
        "MindSpore 2.9.0, jit_level O0: docs/evidence/agreement.md"
    )


@pytest.mark.parametrize(
    ("source", "why", "more"),
    [
        (WITHOUT, "the trace has no graph of MindSpore's", "has it: swapconf dryrun X"),
        (replace(WITHOUT, is_grown=True), "no run has the graph of the whole model", "--no-fold"),
        (replace(GRAPHED, is_grown=True), "the graph of the trace does not tell that of the strategy", "the worst is"),
        (replace(WITHOUT, level=FUSED_LEVEL), "kernels are fused", "docs/evidence/what-if-fused.md"),
        (GRAPHED, "the graph of the trace does not tell that of the strategy", "the worst is"),
        (replace(GRAPHED, level=FUSED_LEVEL), "does not tell that of the strategy", "docs/evidence/what-if-fused.md"),
        (replace(WITHOUT, mindspore="2.7.2"), "the trace has no graph of MindSpore's", "MindSpore 2.7.2, jit_level O0"),
        (replace(WITHOUT, mindspore="2.10.0"), "no graph", "MindSpore 2.10.0, jit_level O0, nothing was measured"),
        (replace(GRAPHED, mindspore="2.11.0"), "graph", "MindSpore 2.11.0, jit_level O0, nothing was measured"),
        (
            replace(WITHOUT, mindspore="2.7.2", level=FUSED_LEVEL),
            "kernels are fused",
            "MindSpore 2.7.2, jit_level O1, nothing was measured",
        ),
    ],
)
def test_the_order_of_the_run_is_told_with_why_and_with_what_gives_a_surer_answer(
    source: Source, why: str, more: str
) -> None:
    told = Way(Order.RUN, source).told
    assert told.startswith("memory in the order of launches of the run without a strategy, as ")
    assert why in told
    assert more in told


@pytest.mark.parametrize(("mindspore", "is_kept"), KEPT.items())
def test_a_release_is_asked_for_another_trace_only_where_that_has_a_graph(mindspore: str, is_kept: bool) -> None:
    assert keeps_graph(mindspore) == is_kept
    assert ("swapconf dryrun" in Way(Order.RUN, replace(WITHOUT, mindspore=mindspore)).told) == is_kept


def test_the_json_form_says_whether_anything_was_measured() -> None:
    known = Way(Order.RUN, WITHOUT).as_record()
    assert (known["order"], known["mindspore"], known["jit_level"], known["is_measured"]) == (
        "run",
        "2.9.0",
        "O0",
        True,
    )
    assert Way(Order.MINDSPORE, replace(GRAPHED, mindspore="2.8.0")).as_record()["is_measured"] is False


def test_what_was_measured_is_told_by_one_line_for_each_order_release_and_level() -> None:
    keys = [item[:3] for item in launch_orders.MEASURED]
    assert len(set(keys)) == len(keys)
    assert measured(Order.MINDSPORE, "2.9.1", UNFUSED_LEVEL) == measured(Order.MINDSPORE, "2.9.0", UNFUSED_LEVEL)
    assert measured(Order.MINDSPORE, "own", UNFUSED_LEVEL) is None
    assert doubt(Order.MINDSPORE, "2.9.0", UNFUSED_LEVEL) < doubt(Order.MINDSPORE, "2.8.0", UNFUSED_LEVEL)


def test_of_two_releases_of_one_minor_each_is_told_by_its_own_line() -> None:
    own = measured(Order.RUN, "2.7.2", UNFUSED_LEVEL)
    assert own is not None
    older = own._replace(mindspore="2.7.1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_orders, "MEASURED", (older, own))
        assert measured(Order.RUN, "2.7.1", UNFUSED_LEVEL) is older
        assert measured(Order.RUN, "2.7.2", UNFUSED_LEVEL) is own


def test_a_trace_tells_its_level_its_release_and_whether_it_has_a_graph(tmp_path: Path) -> None:
    study = study_of(TRACES / "llama.yaml")
    plain = Source.of(golden("llama_l2_none"), study, "")
    assert (plain.level, plain.has_graph, plain.is_grown) == (UNFUSED_LEVEL, False, False)
    assert plain.mindspore == study.versions.mindspore
    assert Source.of(packed(TRACES / "fused" / "llama_plain"), study, "").level == FUSED_LEVEL
    assert Source.of(packed(TRACES / "in_order" / "llama_sends_awaited"), study, "").has_graph
    (tmp_path / "run.json").write_text(
        json.dumps({"environment": {"mindspore": "2.7.2"}, "report": {"grown": "grown from dry runs of 2 layers"}})
    )
    recorded = Source.of(replace(golden("llama_l2_none"), folder=str(tmp_path)), study, "")
    assert (recorded.mindspore, recorded.is_grown) == ("2.7.2", True)


def test_whatif_tells_the_way_as_text_and_as_json() -> None:
    line = ["whatif", str(TRACES / "llama_l2_none"), "--config", str(TRACES / "llama.yaml")]
    line += ["--set", "model.model_config.num_layers=2"]
    text = CliRunner().invoke(main, line).stdout
    assert "memory in the order of launches of the run without a strategy, as the trace has no graph" in text
    assert "--keep DIR" in text
    found = json.loads(CliRunner().invoke(main, [*line, "--format", "json"]).stdout)
    assert found["order_of_launches"]["order"] == "run"
    assert found["order_of_launches"]["told"] in found["origin"]


def test_a_plan_tells_the_way_of_each_rank() -> None:
    judge = real_judge()
    full = uniform(RECOMPUTED, judge.network)
    judge.settle(full)
    (way,) = judge.ways(full)
    assert way.order is Order.RUN
    assert not way.source.has_graph
    lines = list(order_lines(Planned(judge=judge, verdict=Verdict.FULL, chosen=judge.score(full), simple={})))
    assert lines == [way.told, "`--confirm` shows the true run"]
