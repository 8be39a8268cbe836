"""RUN + NODE -> whether it is a gradient, and the gradients that it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swapconf.trace.launch_graph import ITEM, NO_NODE, SAME_VALUE, TUPLE
from swapconf.upstream.primitives import VIEWS
from swapconf.upstream.scopes import descends
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.prepare import ALIGNMENT

SUMS = frozenset({"AddN", "Add"})  # of gradients, which have no number of their own
_SAME = frozenset({ITEM, "Cast"})  # the same gradient
_TURNED = "/Grad_Transpose/"


def given_to(run: RunGraph, node: int) -> list[int]:
    """The gradients among the inputs of a node."""
    given = (value for value in run.graph.inputs[node] if value != NO_NODE and is_gradient(run, value))
    return list(dict.fromkeys(given))


def arrived(run: RunGraph, node: int, cell: str) -> int:
    """A gradient in front of the views of it that belong to no node: but for the Transposes of others than ``cell``,
    which became views later."""
    while (
        (kernel := run.kernel_of.get(node)) is not None
        and run.graph.primitive[node] in VIEWS
        and kernel not in run.forward_of
        and (_TURNED not in run.graph.name[node] or descends(run.baseline.kernels.cell[kernel], {cell}))
        and run.graph.inputs[node][0] != NO_NODE
        and is_gradient(run, run.graph.inputs[node][0])
    ):
        node = run.graph.inputs[node][0]
    return node


def summed_beside(run: RunGraph, gradients: Iterable[int]) -> list[int]:
    """What the gradient that a norm hands on is summed with: a residual Add waits for that where it runs again without
    its norm, as the Add at the end of the layer is the same operator, so that what it waits for ends there.
    ``gradients``: kernels of the norm."""
    stack = [run.node_of[kernel] for kernel in gradients]
    seen = set(stack)
    while stack:
        for user in run.users[stack.pop()]:
            if run.graph.primitive[user] in SUMS:
                return [value for value in run.graph.inputs[user] if value not in seen]
            if user not in seen and run.graph.primitive[user] in _SAME:
                seen.add(user)
                stack.append(user)
    return []


def is_gradient(run: RunGraph, node: int) -> bool:
    """Shows what a kernel of the backward pass made, other than by computing again."""
    baseline, graph = run.baseline, run.graph
    while node != NO_NODE and node < len(graph):
        kernel = run.kernel_of.get(node)
        if kernel is not None and baseline.kernels.backward[kernel] and baseline.views[kernel]:
            node = graph.inputs[node][0]
            continue
        if kernel is not None:
            return bool(baseline.kernels.backward[kernel]) and kernel not in run.twins
        if node in run.saved:
            return False
        if run.is_tie(node):  # of a gradient that is handed to a call, as a received one
            node = run.unpacked(graph.inputs[node][0])
            continue
        if graph.primitive[node] == TUPLE:
            return any(is_gradient(run, given) for given in graph.inputs[node])
        if graph.primitive[node] not in SAME_VALUE | {ITEM}:
            return False
        node = graph.inputs[node][0]
    return False


def with_losses(run: RunGraph, outputs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """What the first gradient of an output of a cell reads, and those of the losses of experts that the cell returns
    where another stage adds them up. ``outputs``: what the gradients of each read, in their order."""
    losses = [outer for outer in outputs if all(_is_number(run, gradient) for gradient in outer)]
    first = next((outer for outer in outputs if outer not in losses), ())
    return (*first, *(gradient for outer in losses for gradient in outer))


def _is_number(run: RunGraph, node: int) -> bool:
    """As the gradient of a loss is."""
    rows = run.baseline.made.get(run.kernel_of.get(run.source(node)[0], -1), [])
    return bool(rows) and bool((run.baseline.blocks.size_bytes[rows] <= ALIGNMENT).all())
