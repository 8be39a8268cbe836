"""KERNELS -> PASSES: which layer a node belongs to, whatever it is named after, and which nodes are one pass of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from swapconf.trace.columns import Flags, Ints, Reads
from swapconf.trace.trace import Kernel
from swapconf.whatif.homes import take_in

Weights: TypeAlias = "Mapping[int, tuple[int, ...]]"  # see homes.weights_read
# layer, cell, primitive, whether MindSpore has lost the cell, the weights that are read
Form: TypeAlias = "tuple[int, str, str, bool, tuple[int, ...] | None]"


def adopted(
    kernels: Sequence[Kernel], layer: Ints, cell: list[str], backward: Flags, reads: Reads, maker: Ints
) -> tuple[Ints, list[str]]:
    """A kernel that MindSpore merged for several cells, or put in itself, has no scope: it belongs to the innermost
    cell of the layer among those that it reads from and that read it."""
    layer = layer.copy()
    lost = np.array([kernel.scope == "Default" for kernel in kernels]) & ~backward
    near: dict[int, list[int]] = {}
    seen = np.where(reads.face >= 0, reads.face, maker[reads.block])
    for source, reader in zip(seen.tolist(), reads.kernel.tolist(), strict=True):
        if not backward[reader] and not backward[source]:
            if lost[source]:
                near.setdefault(source, []).append(reader)
            if lost[reader]:
                near.setdefault(reader, []).append(source)
    for _ in range(2):  # two of them may stand side by side
        for index in sorted(near, reverse=True):
            placed = [neighbour for neighbour in near[index] if layer[neighbour] >= 0]
            readers = [
                neighbour
                for neighbour in near[index]
                if neighbour > index and (layer[neighbour] >= 0 or not lost[neighbour])
            ]
            home = int(layer[min(readers)] if readers else layer[max(placed, default=index)])
            if home >= 0:
                layer[index] = home
                cell[index] = max((cell[neighbour] for neighbour in placed if layer[neighbour] == home), key=len)
        take_in(layer, cell, backward, reads, maker)
    return layer, cell


def rehomed(
    kernels: Sequence[Kernel],
    layer: Ints,
    cell: Sequence[str],
    backward: Flags,
    reads: Reads,
    maker: Ints,
    weights: Weights,
) -> Ints:
    """MindSpore names some kernels of a layer after another one, such as views of GLM's rotary embedding: connected
    nodes, fewer than those of a layer, that stand between nodes of one layer alone, belong to it."""
    source, reader = np.where(reads.face >= 0, reads.face, maker[reads.block]), reads.kernel
    forms = _forms(kernels, layer, cell, backward, weights)
    usual = _usual_by_layer(forms)
    inside = _regular(forms, usual, len(layer)) | _strays(layer, backward, source, reader)
    passing = _connected(inside, layer, source, reader)
    crossing = (passing[source] != passing[reader]) & ~backward[source] & ~backward[reader]
    crossing &= ~_tables(layer, cell, backward, reads, maker)[source]  # which tell of no layer who reads them
    read, readers = dict[int, set[int]](), dict[int, set[int]]()
    for above, below in zip(passing[source[crossing]].tolist(), passing[reader[crossing]].tolist(), strict=True):
        if above >= 0 and below >= 0:
            read.setdefault(below, set()).add(above)
            readers.setdefault(above, set()).add(below)
    sizes = Counter(passing[passing >= 0].tolist())
    home = _at_home(sizes, layer, usual)
    between = [number for number in sizes if number not in home and number in read and number in readers]
    while True:
        settled = dict[int, int]()
        for number in between:
            around = {home[neighbour] for neighbour in read[number] | readers[number] if neighbour in home}
            if number not in home and len(around) == 1:
                settled[number] = around.pop()
        if not settled:
            break
        home |= settled
    moved = np.full(len(layer), -1, dtype=np.int64)
    moved[between] = [home.get(number, -1) for number in between]
    return np.where((passing >= 0) & (moved[passing] >= 0), moved[passing], layer)


def _at_home(sizes: Mapping[int, int], layer: Ints, usual: Mapping[int, int]) -> dict[int, int]:
    """The layer of each set of connected nodes that is a pass of the layer which it is named after. ``sizes``: by the
    first node of a set. A layer is as large as its most connected nodes, or as it is once where its passes are
    connected; what is less than a quarter of the largest one are strays alone."""
    named = {number: int(layer[number]) for number in sizes}
    whole, total = dict[int, int](), Counter[int]()
    for number, size in sizes.items():
        whole[named[number]] = max(size, whole.get(named[number], 0))
        total[named[number]] += size
    once = {own: min(size, total[own] / usual.get(own, 1)) for own, size in whole.items()}
    least = max(once.values(), default=0) / 4
    return {number: own for number, own in named.items() if 2 * sizes[number] >= whole[own] and once[own] >= least}


def passes(
    kernels: Sequence[Kernel],
    layer: Ints,
    cell: Sequence[str],
    backward: Flags,
    reads: Reads,
    maker: Ints,
    weights: Weights,
) -> Ints:
    """Nodes of one layer that are connected; not what several passes share, such as the tables of a rotary embedding,
    or what the parallel optimizer gathers of a weight once for all micro-batches, which is less often there than the
    rest of the layer."""
    forms = _forms(kernels, layer, cell, backward, weights)
    inside = _regular(forms, _usual_by_layer(forms), len(layer))
    inside[_of_several_layers(layer, cell, backward, reads, maker)] = False
    return _connected(inside, layer, maker[reads.block], reads.kernel)


def _forms(
    kernels: Sequence[Kernel], layer: Ints, cell: Sequence[str], backward: Flags, weights: Weights
) -> dict[int, Form]:
    """By node of the forward pass of a layer what it has in common with its like."""
    return {
        index: (
            int(layer[index]),
            cell[index],
            kernels[index].primitive,
            kernels[index].scope == "Default",
            weights.get(index),
        )
        for index in np.flatnonzero((layer >= 0) & ~backward).tolist()
    }


def _usual_by_layer(forms: Mapping[int, Form]) -> dict[int, int]:
    """How often each layer runs."""
    counts = Counter(forms.values())
    counts_of: dict[int, list[int]] = {number: [] for number, *_ in counts}
    for form, count in counts.items():
        if form[-1] is None:
            counts_of[form[0]].append(count)
    return {number: _usual(own) for number, own in counts_of.items()}


def _regular(forms: Mapping[int, Form], usual: Mapping[int, int], count: int) -> Flags:
    """[count] nodes that are as often there as the rest of their layer."""
    counts, inside = Counter(forms.values()), np.zeros(count, dtype=np.bool_)
    for index, form in forms.items():
        inside[index] = counts[form] % usual[form[0]] == 0
    return inside


def _usual(counts: Sequence[int]) -> int:
    """How often a layer runs: as often as most of its nodes, or as half as many of them where that is less often, since
    a cell may use a primitive several times."""
    support = Counter(counts)
    most = max(support.values(), default=0)
    return min((count for count, nodes in support.items() if 2 * nodes >= most), default=1)


def _connected(inside: Flags, layer: Ints, source: Ints, reader: Ints) -> Ints:
    """[kernels] a number for each set of connected nodes of one layer, -1 for what is not ``inside``."""
    parent = list(range(len(layer)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    joined = inside[source] & inside[reader] & (layer[source] == layer[reader])
    for producer, consumer in zip(source[joined].tolist(), reader[joined].tolist(), strict=True):
        parent[root(consumer)] = root(producer)
    return np.array([root(node) if inside[node] else -1 for node in range(len(layer))], dtype=np.int64)


def _strays(layer: Ints, backward: Flags, source: Ints, reader: Ints) -> Flags:
    """What reads another layer than the one that it is named after, and what only follows on such: however often it is
    there, it is no table that layers share."""
    strays = np.zeros(len(layer), dtype=np.bool_)
    forward = np.flatnonzero((layer[reader] >= 0) & ~backward[reader] & (layer[source] >= 0))
    forward = forward[np.argsort(reader[forward], kind="stable")]
    for producer, consumer in zip(source[forward].tolist(), reader[forward].tolist(), strict=True):
        strays[consumer] |= bool(layer[producer] != layer[consumer] or strays[producer])
    return strays


def _tables(layer: Ints, cell: Sequence[str], backward: Flags, reads: Reads, maker: Ints) -> Flags:
    """What several layers read, and what is made of nothing in a layer but such."""
    tables, inside = np.zeros(len(layer), dtype=np.bool_), np.zeros(len(layer), dtype=np.bool_)
    tables[_of_several_layers(layer, cell, backward, reads, maker)] = True
    source = maker[reads.block]
    for producer, consumer in zip(source.tolist(), reads.kernel.tolist(), strict=True):
        inside[consumer] |= layer[producer] >= 0 and not tables[producer]
    return tables & ~inside


def _of_several_layers(layer: Ints, cell: Sequence[str], backward: Flags, reads: Reads, maker: Ints) -> list[int]:
    """Nodes that the same cell of their own and of other layers reads in the forward pass, and what only these read."""
    source = np.where(reads.face >= 0, reads.face, maker[reads.block])
    within = (layer[source] >= 0) & (layer[reads.kernel] >= 0) & ~backward[source] & ~backward[reads.kernel]
    readers: dict[int, set[int]] = {}
    for producer, consumer in zip(source[within].tolist(), reads.kernel[within].tolist(), strict=True):
        readers.setdefault(producer, set()).add(consumer)
    shared: set[int] = set()
    for node in sorted(readers, reverse=True):
        own = {cell[reader] for reader in readers[node] if layer[reader] == layer[node]}
        others = {cell[reader] for reader in readers[node] if layer[reader] != layer[node]}
        if own & others or readers[node] <= shared:
            shared.add(node)
    return sorted(shared)
