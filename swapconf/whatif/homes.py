"""KERNELS -> what tells to which layer and micro-batch they belong where their names do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from swapconf.memory.trace_lifetimes import of_parameter
from swapconf.models.cells import EXPERTS
from swapconf.trace.columns import Flags, Ints, Reads
from swapconf.trace.lifetimes import CONSTANT_VALUE, Category
from swapconf.trace.trace import POINT_TO_POINT, Block, Task


def take_in(layer: Ints, cell: list[str], backward: Flags, reads: Reads, maker: Ints) -> None:
    """MindSpore names some kernels of layers after a cell outside of them, such as the ``Cast`` of the input of a
    router after the rotary embedding, which has called the same function first: a kernel of the forward pass that reads
    one layer alone, and that only the same layer reads, belongs to it. Its cell is the innermost one that reads it."""
    source, reader = maker[reads.block], reads.kernel
    forward = ~backward[source] & ~backward[reader]
    source, reader = source[forward], reader[forward]
    near: dict[int, tuple[list[int], list[int]]] = {}
    for producer, consumer in zip(source.tolist(), reader.tolist(), strict=True):
        if layer[consumer] < 0:
            near.setdefault(consumer, ([], []))[0].append(producer)
        if layer[producer] < 0:
            near.setdefault(producer, ([], []))[1].append(consumer)
    for index, (sources, readers) in near.items():
        homes = {int(layer[neighbour]) for neighbour in (*sources, *readers)}
        if sources and readers and len(homes) == 1 and min(homes) >= 0:
            layer[index] = homes.pop()
            cell[index] = max((cell[consumer] for consumer in readers), key=len)


def dispatched(layer: Ints, cell: Sequence[str], lost: Flags, reads: Reads, maker: Ints) -> list[str]:
    """[kernels] the cells, where what sends tokens to experts and back stands in that of the experts, whose function it
    is (``Morph``), although it has no name and only the cell around that reads what comes back. ``lost``: [kernels] of
    the forward pass, without a name."""
    cells, near = list(cell), dict[int, list[int]]()
    source = np.where(reads.face >= 0, reads.face, maker[reads.block])
    for producer, consumer in zip(source.tolist(), reads.kernel.tolist(), strict=True):
        if producer >= 0 and layer[producer] == layer[consumer] and (lost[producer] or lost[consumer]):
            near.setdefault(producer, []).append(consumer)
            near.setdefault(consumer, []).append(producer)
    stack = [index for index in near if cell[index].rpartition(".")[2] == EXPERTS]
    while stack:
        index = stack.pop()
        for consumer in near[index]:
            if lost[consumer] and cells[consumer] == cells[index].rpartition(".")[0]:
                cells[consumer] = cells[index]
                stack.append(consumer)
    return cells


def states_read(tasks: Sequence[Task], blocks: Sequence[Block]) -> dict[int, int]:
    """By kernel that reads what the optimizer keeps of a weight: the number of that weight in the optimizer's order.
    MindSpore 2.9.0 prepares parameters from the last to the first. ``blocks``: by birth."""
    weights = [block for block in blocks if block.kind == "Weight"]
    names = {block.node for block in weights}
    kept = [block for block in weights if of_parameter(block.node, names) is Category.OPTIMIZER]
    first = [block.start for block in kept if block.node.partition(".")[0] == kept[0].node.partition(".")[0]]
    number = {start: turn for turn, start in enumerate(reversed(first))}
    return {
        index: number[start] for index, task in enumerate(tasks) for start in reversed(task.inputs) if start in number
    }


def weights_read(tasks: Sequence[Task], blocks: Iterable[Block], reads: Reads) -> dict[int, tuple[int, ...]]:
    """By kernel that reads nothing but weights and constants, or what such kernels make of them: these weights."""
    kinds = {block.start: block.kind for block in blocks if block.kind in ("Weight", CONSTANT_VALUE)}
    sources: dict[int, set[int]] = {}
    for face, kernel in zip(reads.face.tolist(), reads.kernel.tolist(), strict=True):
        sources.setdefault(kernel, set()).add(face)
    weights_of: dict[int, tuple[int, ...]] = {}
    for index, task in enumerate(tasks):
        above = sources.get(index, set())
        if above <= weights_of.keys():
            own = {start for start in task.inputs if kinds.get(start) == "Weight"}
            read = own.union(*(weights_of[source] for source in above))
            # what another stage sends, and data, is no constant
            if read or above or (kinds.keys() >= set(task.inputs or (-1,)) and task.primitive not in POINT_TO_POINT):
                weights_of[index] = tuple(sorted(read))
    return weights_of
