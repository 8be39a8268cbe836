"""A toy of MindSpore's last graph, with any number of layers: what layers share, hand on, add up and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, RETURN, STATE, TUPLE, LaunchGraph
from swapconf.trace.postorder import printed


@dataclass
class _Nodes:
    name: list[str] = field(default_factory=list)
    primitive: list[str] = field(default_factory=list)
    inputs: list[tuple[int, ...]] = field(default_factory=list)
    item: list[int] = field(default_factory=list)
    unique: list[str] = field(default_factory=list)
    forward_unique: list[str] = field(default_factory=list)

    def add(
        self, scope: str, primitive: str, *inputs: int, item: int = NO_NODE, own: str = "", forward: str = ""
    ) -> int:
        number = sum(name.startswith(f"{scope}/{primitive}-op") for name in self.name)
        self.name.append(f"{scope}/{primitive}-op{number}")
        self.primitive.append(primitive)
        self.inputs.append(inputs)
        self.item.append(item)
        self.unique.append(own)
        self.forward_unique.append(forward)
        return len(self.name) - 1

    def graph(self, end: int) -> LaunchGraph:
        """In MindSpore's order."""
        order = printed(self.inputs, end)
        where = {node: place for place, node in enumerate(order)} | {NO_NODE: NO_NODE}
        return LaunchGraph(
            name=tuple(self.name[node] for node in order),
            primitive=tuple(self.primitive[node] for node in order),
            inputs=tuple(tuple(where[given] for given in self.inputs[node]) for node in order),
            item=np.array([self.item[node] for node in order], dtype=np.int64),
            unique=tuple(self.unique[node] for node in order),
            forward_unique=tuple(self.forward_unique[node] for node in order),
            fused=(None,) * len(order),
            end=where[end],
        )


def toy_graph(layers: Sequence[int], micro_batches: int = 1, numbers: int = 100) -> LaunchGraph:
    """``layers``: their numbers. ``numbers``: MindSpore's, from here on."""
    nodes = _Nodes()
    sums = [NO_NODE] * len(layers)
    loss = NO_NODE
    for _ in range(micro_batches):
        loss = _micro_batch(nodes, layers, sums, loss, numbers)
    squares = [nodes.add("Default/norm", "Square", dw) for dw in sums]
    scale = nodes.add("Default/norm", "AddN", *squares)
    state = NO_NODE
    for dw in sums:
        state = nodes.add(
            "Default/optimizer", STATE, state, nodes.add("Default/optimizer", "Assign", NO_NODE, dw, scale)
        )
    return nodes.graph(nodes.add("Default", RETURN, nodes.add("Default", DEPEND, loss, state)))


def _micro_batch(nodes: _Nodes, layers: Sequence[int], sums: list[int], before: int, numbers: int) -> int:
    """Adds to the ``sums`` of gradients of each layer. Layers hand on two values each in one tuple; the first one makes
    a mask that all read, and the last one a value more."""
    start = nodes.add("Default", DEPEND, NO_NODE, before)
    value, mask, handed = nodes.add("Default/embed", "Gather", start), NO_NODE, list[int]()
    for place, layer in enumerate(layers):
        scope, own = f"Default/layers-CellList/{layer}-Cell", numbers + 10 * place
        weight = nodes.add(scope, LOAD, NO_NODE)
        product = nodes.add(scope, "MatMul", value, weight, own=str(own))
        if mask == NO_NODE:
            mask = nodes.add("Default/mask", "Tril", nodes.add("Default/mask", "Cast", NO_NODE))
        handed += [value, product]
        value = nodes.add(scope, "Add", value, nodes.add(scope, "Mul", product, mask, own=str(own + 1)))
    handed.append(nodes.add("Default/loss", "Exp", value))
    saved = nodes.add("Default", TUPLE, *handed)
    loss = nodes.add("Default/loss", "Sum", handed[-1])
    gradient = nodes.add("Gradients/Default/loss", "SumGrad", nodes.add("Default", ITEM, saved, item=len(handed) - 1))
    for place in reversed(range(len(layers))):
        scope, own = f"Gradients/Default/layers-CellList/{layers[place]}-Cell", numbers + 10 * place
        given, product = (nodes.add("Default", ITEM, saved, NO_NODE, item=2 * place + which) for which in (0, 1))
        masked = nodes.add(scope, "MulGrad", gradient, product, mask, forward=str(own + 1))
        gradient = nodes.add(scope, "AddGrad", gradient, masked, forward=str(own))
        sums[place] = nodes.add(
            scope, "AssignAdd", sums[place], nodes.add(scope, "MatMul", masked, given, forward=str(own))
        )
    return loss
