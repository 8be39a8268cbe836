"""ASKED -> NODES: sums of gradients whose order a strategy changes."""

from __future__ import annotations

from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes

_SUM, _EXPERTS = "AddN", ".experts"


def turn_sums_of_experts(asked: Asked, nodes: Nodes) -> None:
    """Of what experts and their router read alike MindSpore adds the gradients in the order in which it meets the two;
    experts that are recomputed for themselves are called, and met last (measured with 2.9.0: Qwen3-MoE)."""
    run, kernels, name = asked.run, asked.prepared.baseline.kernels, asked.prepared.baseline.layers.name
    for node, kernel in run.kernel_of.items():
        layer = int(kernels.layer[kernel])
        if run.graph.primitive[node] != _SUM or layer < 0:
            continue
        if f"{kernels.cell[kernel]}{_EXPERTS}" in asked.plan.marks.actions.roots.get(name(layer), ()):
            nodes.inputs[node].reverse()
