"""MindSpore's passes on its early graph, each against the graph that MindSpore 2.9.0 had behind it, and the last one.

`tests/traces/early.tar.xz` has of three families (Llama: 3 layers; Qwen3, with and without experts: the 2 layers of a
last stage; 2 micro-batches, lazy inline, jit_level O0), as MindSpore printed them, without layouts and what it tells of
source files:

- last_graph.json and cconv.ir: of a run without swap and recompute the last graph and the func graphs behind ``cconv``;
- cells.ir: the early graph (``opt_a_r2_j0_27``) of one in which layers, and of dense models the cells right in them,
  are kept as func graphs;
- swapped.ir: the early graph of a strategy of Qwen3 itself, which swaps one layer and recomputes parts of both;
- expected.json: how true runs differ from a config of this repository; of these the primitives in the order of their
  launches, the marks in their own early graphs and, where the early graph of the strategy is equal to one made of
  cells.ir, the graphs that MindSpore had behind passes, as hashes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from swapconf.config.overrides import of_file
from swapconf.decide.strategy import Strategy
from swapconf.study.settings import Settings
from swapconf.study.study import study_document
from swapconf.trace.launch_order import launched
from swapconf.upstream import dropped
from swapconf.upstream.facts import Versions
from swapconf.whatif.graph.nodes import Nodes
from swapconf.whatif.lift import early_text
from swapconf.whatif.lift.func_graphs import (
    OFFLOAD,
    PREFETCH,
    Callee,
    CNode,
    Constant,
    EarlyGraph,
    Parameter,
    Value,
    sorted_from,
)
from swapconf.whatif.passes.backend import LoweredCalls, lower_captured
from swapconf.whatif.passes.borders import without_borders
from swapconf.whatif.passes.calls import Kept, calls_of
from swapconf.whatif.passes.k_prims import outline
from swapconf.whatif.passes.marks import NoBorder, cells_again, mark_offload, mark_recompute
from swapconf.whatif.passes.not_recompute import hand_on
from swapconf.whatif.passes.offload import offload
from swapconf.whatif.passes.recompute_cell import recompute
from swapconf.whatif.placed_calls import BaselineCalls, NotTheSameGraph, saved_outputs
from swapconf.whatif.transplant import transplanted
from swapconf.words.findings import SwapconfError
from tests.helpers import ROOT
from tests.unit.early_runs import EarlyRuns, hashed

FAMILIES = ("llama", "qwen3", "qwen3_moe")


RECORDED = EarlyRuns("early")


@cache
def baseline(family: str) -> tuple[BaselineCalls, Kept]:
    graph, module = RECORDED.last(family), RECORDED.early(family, "cconv.ir")
    outputs = saved_outputs(graph)
    calls = lower_captured(module.forward, module.backward, outputs)
    kept = Kept.of(calls, outputs)
    return BaselineCalls.of(graph, calls, is_pipelined=family != "llama"), kept


@cache
def expected(family: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.text(family, "expected.json"))
    return found


def runs(kind: str) -> list[ParameterSet]:
    """Strategies of which this is recorded."""
    return [
        pytest.param(family, run, id=f"{family}-{run['name']}")
        for family in FAMILIES
        for run in expected(family)["strategies"]
        if kind in run
    ]


def strategy_of(family: str, run: dict[str, Any]) -> Strategy:
    config = expected(family)
    document = of_file(str(ROOT / config["config"]), [*config["set"], *run["set"]])
    settings = Settings(apply=dropped.KEYS if run.get("apply") else frozenset())
    strategy = study_document(document, Versions(mindspore="2.9.0", mindformers="1.9.0"), {}, settings).strategy
    assert strategy is not None
    return strategy


def order(nodes: Nodes) -> str:
    graph = nodes.frozen()
    return hashed(graph.primitive[node] for node in launched(graph))


def fingerprint(module: EarlyGraph) -> dict[str, Any]:
    """Of all nodes, each by its primitive and all that is upstream of it; without numbers that compilations count."""
    known: dict[CNode, str] = {}

    def told(value: Value) -> str:
        if isinstance(value, CNode):
            return known[value]
        if isinstance(value, Parameter):
            return "p" + re.sub(r"\d+|▸|CR_", "", value.plain)
        if isinstance(value, Constant):
            return value.text
        graph = module.graphs.get(value.name)
        return known[graph.end] if graph else value.name

    for node in sorted_from(module.graphs[module.entry].end, module=module):
        inputs = [told(value) for value in node.inputs]
        known[node] = hashlib.sha256(repr((node.primitive, inputs)).encode()).hexdigest()[:16]
    lines = (f"{key} {count}" for key, count in sorted(Counter(known.values()).items()))
    return {"nodes": len(known), "hash": hashed(lines)}


def marks(module: EarlyGraph) -> dict[str, Any]:
    """Of all nodes that move, each by its scope, primitive, operator and prefetch."""
    lines = [
        f"{node.scope} {node.primitive} {re.sub('[0-9]+', 'N', node.operator)} {node.attributes[PREFETCH]}"
        for node in module.nodes()
        if OFFLOAD in node.attributes
    ]
    return {"nodes": len(lines), "hash": hashed(sorted(lines))}


@pytest.mark.parametrize(("family", "run"), runs("marks"))
def test_a_strategy_marks_the_nodes_that_it_marked_in_its_true_run(family: str, run: dict[str, Any]) -> None:
    module, strategy = RECORDED.early(family, "cells.ir"), strategy_of(family, run)
    without_borders(module, cells_again(module, strategy))
    mark_recompute(module, strategy)
    mark_offload(module, strategy)
    assert marks(module) == run["marks"]


@pytest.mark.parametrize(("family", "run"), runs("passes"))
def test_each_pass_leaves_the_graph_that_mindspore_left(family: str, run: dict[str, Any]) -> None:
    module, strategy, behind = RECORDED.early(family, "cells.ir"), strategy_of(family, run), run["passes"]
    if not run.get("keeps_all"):
        without_borders(module, cells_again(module, strategy))
    mark_recompute(module, strategy)
    outline(module)
    mark_offload(module, strategy)
    primals = recompute(module)
    assert fingerprint(module) == behind["recompute_cell"]
    offload(module)
    assert fingerprint(module) == behind["offload"]
    hand_on(module, primals)
    assert fingerprint(module) == behind["not_recompute"]


def test_recompute_and_offload_leave_the_graph_of_a_strategy_that_does_both() -> None:
    module, behind = RECORDED.early("qwen3", "swapped.ir"), expected("qwen3")["swapped"]
    recompute(module)
    assert fingerprint(module) == behind["recompute_cell"]
    assert offload(module) > 0
    assert fingerprint(module) == behind["offload"]


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_of_the_run_without_a_strategy_are_put_back_in_their_places(family: str) -> None:
    found, _ = baseline(family)
    assert len(found.placed) == 2
    assert order(transplanted(found, found.calls)) == order(Nodes(found.graph))


@pytest.mark.parametrize(("family", "run"), runs("order"))
def test_a_strategy_is_launched_in_the_order_of_its_true_run(family: str, run: dict[str, Any]) -> None:
    found, kept = baseline(family)
    nodes = transplanted(found, calls_of(RECORDED.early(family, "cells.ir"), strategy_of(family, run), kept))
    assert order(nodes) == run["order"]


@pytest.mark.parametrize(
    ("family", "asked", "lacking"),
    [
        ("qwen3", r"recompute_config.select_recompute={'mlp\.linear_fc1': True}", "2.mlp.linear_fc1"),
        ("llama", r"recompute_config.select_recompute={'attention\.apply_rotary_emb': True}", "apply_rotary_emb"),
    ],
)
def test_what_has_no_func_graph_of_its_own_is_refused(family: str, asked: str, lacking: str) -> None:
    strategy = strategy_of(family, {"set": ['swap_config={"swap": false}', asked]})
    with pytest.raises(NoBorder, match=re.escape(lacking)):
        cells_again(RECORDED.early(family, "cells.ir"), strategy)


def test_calls_of_another_model_are_not_found() -> None:
    other, _ = baseline("llama")
    calls: LoweredCalls = other.calls
    with pytest.raises(NotTheSameGraph, match="hands on as many"):
        BaselineCalls.of(RECORDED.last("qwen3"), calls, is_pipelined=True)


def test_a_node_of_a_graph_around_is_read_by_its_name(tmp_path: Path) -> None:
    text = """\
# IR entry: @1_step
subgraph attr:
recompute_k_graph: 1
subgraph instance: x : 0x1
subgraph @2_▸cell(%para1_▸x, %para2_▸u) {
  %0(equiv_1_weight) = Load(%para1_▸x, %para2_▸u) cnode_primal_attrs: {unique_id: "7"}
      : (<Ref[Tensor[Float32]], (64)>, <UMonad, NoShape>) -> (<Tensor[Float32], (64)>)
      # Scope: (Default/net/norm)
  %1(pair) = MakeTuple(%0, @3_◂cell)
  Return(%1)
}
subgraph attr:
subgraph instance: y : 0x1
subgraph @3_◂cell parent: [subgraph @2_▸cell](%para3_dout) {
  %0(dx) = PrimFunc_Mul($(@2_▸cell:equiv_1_weight), %para3_dout) cnode_attrs: {duplicated: Bool(1)}
  Return(%0)
}
subgraph attr:
subgraph instance: z : 0x1
subgraph @1_step(%para4_x) {
  %0(called) = call @2_▸cell(%para4_x, UMonad[U])
  %1(closure) = TupleGetItem(%0, I64(1))
  %2(dx) = %1[@@3_◂cell](F32(1))
  Return(%2)
}
"""
    path = tmp_path / "early.ir"
    path.write_text(text)
    module = early_text.read(path)
    assert module.forward.name == "2_▸cell"
    assert module.forward.is_k_graph
    product = module.backward.result
    assert isinstance(product, CNode)
    weight = product.inputs[0]
    assert isinstance(weight, CNode)
    assert (product.primitive, product.marks, product.inputs[1]) == (
        "Mul",
        frozenset({"duplicated"}),
        Parameter("3_◂cell", "para3_dout"),
    )
    assert (weight.unique, weight.scope, weight.shape, weight.graph) == ("7", "Default/net/norm", (64,), module.forward)
    gradient = module.graphs[module.entry].result
    assert isinstance(gradient, CNode)
    assert (gradient.primitive, gradient.closures) == ("call", ("3_◂cell",))
    assert module.called(gradient) is None
    call = next(node for node in module.nodes() if node.inputs[:1] == [Callee("2_▸cell")])
    assert module.k_graph(call) is module.forward


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("subgraph @1_step() {\n", "trace-truncated"),
        ("nothing\n", "trace-header"),
        ("subgraph @1_x() {\n  %0(a) = \n}\n", "trace-garbled"),
    ],
)
def test_a_file_of_another_kind_is_refused(text: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "early.ir"
    path.write_text(text)
    with pytest.raises(SwapconfError) as caught:
        early_text.read(path)
    assert rule in {finding.rule for finding in caught.value.findings}


_OF_ONE_OPERATOR = """\
# IR entry: @1_step
subgraph attr:
subgraph instance: x : 0x1
subgraph @2_▸net(%para1_x) {
  %0(a) = PrimFunc_Mul(%para1_x, %para1_x) cnode_primal_attrs: {unique_id: "1"}
  %1(b) = OPERATOR primitive_attrs: {recompute: Bool(1)} cnode_primal_attrs: {unique_id: "2"}
  %2(c) = PrimFunc_Mul(%0, %1) cnode_primal_attrs: {unique_id: "3"}
  %3(pair) = MakeTuple(%2, @3_◂net)
  Return(%3)
}
subgraph attr:
subgraph instance: y : 0x1
subgraph @3_◂net parent: [subgraph @2_▸net](%para2_dout) {
  %0(db) = PrimFunc_Mul(%para2_dout, $(@2_▸net:a)) cnode_primal_attrs: {forward_unique_id: "3"}
      # Scope: (Gradients/net)
  %1(da) = PrimFunc_Mul(%para2_dout, $(@2_▸net:b)) cnode_primal_attrs: {forward_unique_id: "3"}
      # Scope: (Gradients/net)
  %2(dx) = PrimFunc_SiLUGrad(%0, $(@2_▸net:a)) cnode_primal_attrs: {forward_unique_id: "2"}
      # Scope: (Gradients/net)
  %3(all) = MakeTuple(%1, %2)
  Return(%3)
}
subgraph attr:
subgraph instance: z : 0x1
subgraph @1_step(%para3_x) {
  %0(called) = call @2_▸net(%para3_x)
  %1(closure) = TupleGetItem(%0, I64(1))
  %2(dx) = %1[@@3_◂net](F32(1))
  Return(%2)
}
"""


def test_an_operator_that_runs_again_by_itself_waits_for_the_gradient_that_arrives(tmp_path: Path) -> None:
    path = tmp_path / "early.ir"
    path.write_text(_OF_ONE_OPERATOR.replace("OPERATOR", "PrimFunc_SiLU(%0)"))
    module = early_text.read(path)
    outline(module)
    recompute(module)
    calls = [node for node in module.nodes() if module.k_graph(node) is not None]
    assert [node.graph for node in calls] == [module.backward]
    waiting = calls[0].inputs[1]
    assert isinstance(waiting, CNode)
    assert waiting.primitive == "Depend"
    awaited = waiting.inputs[1]
    assert isinstance(awaited, CNode)
    assert [node.name for node in awaited.inputs if isinstance(node, CNode)] == ["db"]


def test_a_sum_whose_addends_others_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "early.ir"
    path.write_text(_OF_ONE_OPERATOR.replace("OPERATOR", "PrimFunc_Add(%0, %para1_x)"))
    with pytest.raises(NoBorder):
        outline(early_text.read(path))
