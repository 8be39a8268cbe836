"""EARLY GRAPH -> another one like it, which passes may edit."""

from __future__ import annotations

from swapconf.whatif.lift.func_graphs import CNode, EarlyFuncGraph, EarlyGraph


def copied(module: EarlyGraph) -> tuple[EarlyGraph, dict[CNode, CNode]]:
    """The other graph, and by node that of it."""
    graphs = {name: EarlyFuncGraph(graph.name, graph.parameters, graph.flags) for name, graph in module.graphs.items()}
    nodes = module.nodes()
    copy_of = {node: node.like((), graphs[node.graph.name]) for node in nodes}
    for graph in module.reached():
        graphs[graph.name].end = copy_of[graph.end]
    for node, copy in copy_of.items():
        copy.inputs[:] = [copy_of[value] if isinstance(value, CNode) else value for value in node.inputs]
    return EarlyGraph(graphs, module.entry), copy_of
