"""ASKED -> NODES: sums of gradients whose order a strategy changes."""

from __future__ import annotations

from swapconf.models.cells import EXPERTS, MLP
from swapconf.whatif.graph.asked import Asked
from swapconf.whatif.graph.nodes import Nodes

_SUM, _NETWORK, _EXPERTS = "AddN", f".{MLP}", f".{EXPERTS}"


def turn_sums_of_experts(asked: Asked, nodes: Nodes) -> None:
    """Of what experts and their router read alike MindSpore adds the gradients in the order in which it meets the two.
    Experts that are recomputed for themselves are called, and met last; in a layer that predicts further tokens they
    are so anyway, in a single stage not where their network is in a recomputed cell (measured with 2.9.0: Qwen3-MoE,
    DeepSeek-V3, TeleChat3-MoE)."""
    run, kernels, layers = asked.run, asked.prepared.baseline.kernels, asked.prepared.baseline.layers
    for node, kernel in run.kernel_of.items():
        layer, cell = int(kernels.layer[kernel]), kernels.cell[kernel]
        if run.graph.primitive[node] != _SUM or layer < 0:
            continue
        if layers.is_extra[layer]:
            is_turned = not asked.is_pipelined and cell.endswith(_NETWORK) and asked.is_recomputed(kernel)
        else:
            is_turned = f"{cell}{_EXPERTS}" in asked.plan.marks.actions.roots.get(layers.name(layer), ())
        if is_turned:
            nodes.inputs[node].reverse()
