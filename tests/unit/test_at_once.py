"""Recompute without lazy inline from MindSpore's early graph, each pass against what MindSpore 2.9.0 had behind it.

`tests/traces/at_once.tar.xz` has of two families (Llama: 3 layers, data parallel 2 x tensor parallel 4; Qwen3: 2
layers, 2 x 2; neither stages nor accumulation, jit_level O0) the func graph of the training step as MindSpore printed
it, without types and layouts:

- last_graph.json, before.ir, behind.ir: of a run without swap and recompute the last graph, and the graphs in front of
  ``cse`` of the second round of ``opt_a`` and of ``add_recomputation``;
- expected.json: how true runs differ from a config of this repository, and as hashes their marks in front of ``cse``,
  their graph behind ``cse_after_recomputation``, their last graph, and its primitives in the order of their launches.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from swapconf.config.overrides import of_file
from swapconf.decide.strategy import Strategy
from swapconf.study.study import study_for_check
from swapconf.trace.launch_graph import ITEM, LOAD, NO_NODE, TUPLE, LaunchGraph
from swapconf.trace.launch_order import launched
from swapconf.trace.postorder import printed
from swapconf.whatif.at_once import BaselineStep, NotTied, last_graph, played
from swapconf.whatif.lift import early_text
from swapconf.whatif.lift.copied import copied
from swapconf.whatif.lift.func_graphs import (
    RECOMPUTE,
    YES,
    CNode,
    Constant,
    EarlyGraph,
    Monad,
    Parameter,
    Value,
    sorted_from,
)
from swapconf.whatif.passes.add_recomputation import CELL_OUTPUT, add_recomputation
from swapconf.whatif.passes.recompute_cell import AGAIN
from swapconf.whatif.passes.recompute_marks import mark_step
from tests.helpers import ROOT
from tests.unit.early_runs import EarlyRuns, hashed

FAMILIES = ("llama", "qwen3")
_CONDITION = "ConditionSwitch"


RECORDED = EarlyRuns("at_once")


@cache
def baseline(family: str) -> BaselineStep:
    before, behind = RECORDED.early(family, "before.ir"), RECORDED.early(family, "behind.ir")
    return BaselineStep.of(RECORDED.last(family), before, behind)


@cache
def expected(family: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(RECORDED.text(family, "expected.json"))
    return content


def runs() -> list[ParameterSet]:
    return [
        pytest.param(family, run, id=f"{family}-{run['name']}")
        for family in FAMILIES
        for run in expected(family)["strategies"]
    ]


@cache
def strategy_of(family: str, *changes: str) -> Strategy:
    """Without lazy inline unless it swaps."""
    config = expected(family)
    document = of_file(str(ROOT / config["config"]), [*config["set"], *changes])
    strategy = study_for_check(document, {}, "2.9.0", "1.9.0").strategy
    assert strategy is not None
    assert strategy.lazy_inline == strategy.swap_on
    return strategy


def counted(lines: Iterable[str]) -> dict[str, Any]:
    count = Counter(lines)
    return {"nodes": sum(count.values()), "hash": hashed(f"{key} {count[key]}" for key in sorted(count))}


def fingerprint(module: EarlyGraph) -> dict[str, Any]:
    """Of all nodes of the training step, each by its primitive and all that is upstream of it, without numbers that
    compilations count. In which order a state waits for loads differs between runs, and no launch depends on it."""
    step = module.graphs[module.entry]
    upstream: dict[CNode, str] = {}

    def told(value: Value) -> str:
        if isinstance(value, CNode):
            return upstream[value]
        if isinstance(value, Parameter):
            return re.sub(r"\d+|▸|CR_", "", value.plain)
        if isinstance(value, Constant):
            return "u" if value.monad is Monad.MEMORY else value.text
        return "func graph"

    for node in sorted_from(step.end):
        inputs = [told(value) for value in node.inputs]
        if node.primitive == TUPLE and all(
            isinstance(given, CNode) and given.primitive == LOAD for given in node.inputs
        ):
            inputs.sort()
        upstream[node] = hashlib.sha256(repr((node.primitive, inputs)).encode()).hexdigest()[:16]
    return counted(text for node, text in upstream.items() if node.graph is step)


def marks(module: EarlyGraph) -> dict[str, Any]:
    """Of all nodes that are in a recomputed cell, marked, or an output that is kept."""
    return counted(
        f"{node.primitive} {re.sub('[0-9]+', 'N', node.operator)} {is_inside} {value} {CELL_OUTPUT in node.marks}"
        for node in sorted_from(module.graphs[module.entry].end)
        if (is_inside := node.scope.startswith(AGAIN))
        | bool(value := node.attributes.get(RECOMPUTE, ""))
        | (CELL_OUTPUT in node.marks)
    )


def all_nodes(graph: LaunchGraph) -> dict[str, Any]:
    """Of all nodes that lead to the end, each by all that is upstream of it. In which order the branches of a condition
    are given values differs between two runs of one YAML."""
    upstream: dict[int, str] = {NO_NODE: ""}
    for node in printed(graph.inputs, graph.end):
        inputs = [upstream[given] for given in graph.inputs[node]]
        source = next(iter(graph.inputs[node]), NO_NODE)
        if graph.primitive[node] == _CONDITION:
            inputs.sort()
        elif graph.primitive[node] == ITEM and source != NO_NODE and graph.primitive[source] == _CONDITION:
            inputs = [upstream[graph.inputs[source][int(graph.item[node]) + 1]]]
        item = int(graph.item[node]) if inputs and source != NO_NODE and graph.primitive[source] != _CONDITION else 0
        told = graph.primitive[node], item, inputs, graph.fused[node]
        upstream[node] = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
    return counted(text for node, text in upstream.items() if node != NO_NODE)


def order(graph: LaunchGraph) -> str:
    return hashed(graph.primitive[node] for node in launched(graph))


@pytest.mark.parametrize(("family", "run"), runs())
def test_a_strategy_marks_what_it_marked_in_its_true_run(family: str, run: dict[str, Any]) -> None:
    module, _ = copied(baseline(family).before)
    mark_step(module, strategy_of(family, *run["set"]))
    assert marks(module) == run["marks"]


@pytest.mark.parametrize(("family", "run"), runs())
def test_the_passes_leave_the_graph_that_mindspore_left(family: str, run: dict[str, Any]) -> None:
    assert fingerprint(played(baseline(family), strategy_of(family, *run["set"])).module) == run["graph"]


@pytest.mark.parametrize(("family", "run"), runs())
def test_a_strategy_has_the_last_graph_and_the_order_of_its_true_run(family: str, run: dict[str, Any]) -> None:
    graph = last_graph(baseline(family), strategy_of(family, *run["set"])).frozen()
    assert order(graph) == run["order"]
    assert all_nodes(graph) == run["last"]


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_strategy_all_is_as_it_was(family: str) -> None:
    nodes = last_graph(baseline(family), strategy_of(family, 'swap_config={"swap": false}'))
    assert order(nodes.frozen()) == order(RECORDED.last(family))


def test_a_strategy_that_swaps_is_refused() -> None:
    with pytest.raises(ValueError, match="moves"):
        last_graph(baseline("llama"), strategy_of("llama", 'swap_config={"swap": true, "default_prefetch": 3}'))


def test_an_early_graph_of_another_model_is_not_tied() -> None:
    other = BaselineStep.of(
        RECORDED.last("qwen3"), RECORDED.early("llama", "before.ir"), RECORDED.early("llama", "behind.ir")
    )
    with pytest.raises(NotTied):
        last_graph(other, strategy_of("llama", 'swap_config={"swap": false}', "recompute_config.recompute=True"))


def test_what_begins_in_a_copy_waits_for_what_the_gradient_is_given_of_others(tmp_path: Path) -> None:
    """Two nodes run again of which the second alone is read by a gradient; that waits for the gradient above it."""
    path = tmp_path / "step.ir"
    path.write_text("""\
# IR entry: @1_step
subgraph @1_step(%para1_x) {
  %0(a) = Exp(%para1_x) primitive_attrs: {recompute: Bool(1)} cnode_primal_attrs: {unique_id: "1"}
      # Scope: (Default/net)
  %1(b) = Tanh(%0) primitive_attrs: {recompute: Bool(1)} cnode_primal_attrs: {unique_id: "2"}
      # Scope: (Default/net)
  %2(c) = Square(%1) cnode_primal_attrs: {unique_id: "3"}
      # Scope: (Default/net)
  %3(dc) = SquareGrad(%2) cnode_primal_attrs: {forward_unique_id: "3"}
      # Scope: (Gradients/Default/net)
  %4(db) = TanhGrad(%1, %3) cnode_primal_attrs: {forward_unique_id: "2"}
      # Scope: (Gradients/Default/net)
  Return(%4)
}
""")
    module = early_text.read(path)
    copies = add_recomputation(module)
    gradient = module.graphs[module.entry].result
    assert isinstance(gradient, CNode)
    tanh, given = gradient.inputs
    assert isinstance(tanh, CNode)
    exp = tanh.inputs[0]
    assert isinstance(exp, CNode)
    waits = exp.inputs[0]
    assert isinstance(waits, CNode)
    assert {copy.primitive: node.name for copy, node in copies.items()} == {"Exp": "a", "Tanh": "b"}
    assert (waits.primitive, waits.inputs[0]) == ("Depend", Parameter("1_step", "para1_x"))
    awaited = waits.inputs[1]
    assert isinstance(awaited, CNode)
    assert awaited.inputs == [given]
    assert exp.attributes[RECOMPUTE] == YES
