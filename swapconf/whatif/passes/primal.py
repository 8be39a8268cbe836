"""The primal of a K graph, for `recompute_cell`: the func graph that it was made of, with the value but no closure.

MindSpore keeps it beside the K graph (``transforms``), and does not print it. Compared with MindSpore's own, which is
called in place of the K graph behind the pass, in 14 runs of 3 families: equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from swapconf.trace.launch_graph import TUPLE
from swapconf.whatif.lift.func_graphs import (
    K_GRAPH,
    NO,
    NOT_AGAIN,
    RECOMPUTE,
    CNode,
    EarlyFuncGraph,
    Parameter,
    Value,
    sorted_from,
)

MAY_MERGE = "need_cse_after_recompute"


class Primal(NamedTuple):
    """``left_out``: by node of the K graph that must not run again, a primitive or the call of the K graph of one, that
    primitive in ``graph``."""

    k_graph: EarlyFuncGraph
    graph: EarlyFuncGraph
    left_out: Mapping[CNode, CNode]


def primal(k_graph: EarlyFuncGraph, called: Callable[[Value], EarlyFuncGraph | None]) -> Primal:
    """What a K graph was made of. K graphs of primitives in it are these primitives. ``called``: see `EarlyGraph`."""
    found = EarlyFuncGraph(f"primal of {k_graph.name}", k_graph.parameters, k_graph.flags - {K_GRAPH})
    copies: dict[CNode, CNode] = {}
    left_out: dict[CNode, CNode] = {}

    def copied(value: Value) -> Value:
        if isinstance(value, Parameter) and value.graph == k_graph.name:
            return Parameter(found.name, value.name)
        return copies.get(value, value) if isinstance(value, CNode) else value

    returned = k_graph.result.inputs[0] if isinstance(k_graph.result, CNode) else k_graph.result
    for node in sorted_from(returned) if isinstance(returned, CNode) else ():
        if node.graph is not k_graph:
            continue
        inner = called(node.inputs[0]) if node.index == 0 else None
        if inner is not None and not inner.is_of_cell and inner.flags & {K_GRAPH, NOT_AGAIN}:
            call = node.inputs[0]
            assert isinstance(call, CNode)
            copy = operator(inner, list(map(copied, call.inputs[1:])), found)
            if NOT_AGAIN in inner.flags:
                left_out[call] = copy
        else:
            copy = node.like(map(copied, node.inputs), found)
            if node.attributes.get(RECOMPUTE) == NO:
                left_out[node] = copy
        copy.marks |= {MAY_MERGE}
        copies[node] = copy
    found.end.inputs.append(copied(returned))
    return Primal(k_graph, found, left_out)


def operator(k_graph: EarlyFuncGraph, given: Sequence[Value], home: EarlyFuncGraph) -> CNode:
    """The one node of the K graph of a primitive, as a node of ``home``."""
    node = next(node for node in sorted_from(k_graph.end) if node.graph is k_graph and node.primitive != TUPLE)
    known = {Parameter(k_graph.name, name): value for name, value in zip(k_graph.parameters, given, strict=True)}
    return node.like((known.get(one, one) if isinstance(one, Parameter) else one for one in node.inputs), home)
