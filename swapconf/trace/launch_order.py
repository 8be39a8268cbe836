"""LAUNCH GRAPH -> ORDER: the order in which MindSpore launches the kernels of a graph.

It is decided on the last graph, once, in three steps.

1. From the end of the graph backwards: how often each node is read, and by whom, nearest to the end first. What only
   parameters and constants lead to, through nodes that are launched nowhere, counts as there from the beginning.
2. From the end backwards again, each node when all of its readers have been met. What waits for nothing could be
   launched at any time; so that it is not too early, each kernel that is met holds back the last of these, which then
   waits for it.
3. Forwards, with a queue. Where a node has a single reader, that reader is next; so is every reader that is launched
   nowhere. Other readers queue up: computation behind communication, of what computation gives; the other way round of
   what communication gives. What reads the result of communication waits until the queue is empty; of communication
   that may be fused with the next one of its group, until that one has come.

Source: MindSpore 2.9.0, ``ExecOrderBuilder`` (backend/common/session/exec_order_builder.cc). Measured, in dry runs of
seven families of models: afterwards the Cast of a parameter is launched right before the first kernel that reads it,
unless some parameter is written in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from swapconf.trace.contracted import contracted
from swapconf.trace.launch_graph import ITEM, NO_NODE, SAME_VALUE, TUPLE, LaunchGraph
from swapconf.trace.trace import Kernel
from swapconf.upstream.primitives import CAST

_WRITES = "Assign"  # or AssignAdd
_NEVER = 1 << 60


class GraphCycle(ValueError):
    """Nodes read from each other in a circle, so that there is no order."""


def launched(graph: LaunchGraph) -> list[int]:
    """The kernels in the order of their launches, as numbers of nodes. Raises ValueError where nodes read from each
    other in a circle."""
    if any(cluster != NO_NODE for cluster in graph.cluster):
        found = contracted(graph)
        return found.opened(launched(found.graph))
    upwards = inputs_first(graph.inputs)
    return [*_late_casts(graph, _turns(graph, upwards), upwards), *graph.behind]


def turns(graph: LaunchGraph) -> list[int]:
    """The same before casts of parameters are moved, as MindSpore's own passes see it: one graph alone."""
    return _turns(graph, inputs_first(graph.inputs))


def reproduces(graph: LaunchGraph, kernels: Iterable[Kernel]) -> bool:
    """Whether the order of a graph is the one in which kernels were launched; see `repeats`."""
    return repeats(graph, [kernel.name for kernel in kernels if not kernel.is_event])


def repeats(graph: LaunchGraph, ran: Sequence[str]) -> bool:
    """Whether the order of a graph is that of kernels, by their names, in each of their steps. Nodes that the kernels
    do not have, such as the borders of a condition, are left aside."""
    names = frozenset(ran)
    try:
        step = [graph.name[node] for node in launched(graph) if graph.name[node] in names]
    except ValueError:
        return False
    return bool(step) and len(ran) % len(step) == 0 and step * (len(ran) // len(step)) == [*ran]


def _turns(graph: LaunchGraph, upwards: Sequence[int]) -> list[int]:
    return _Queue(graph, _edges(graph, _given(graph, upwards))).run()


def inputs_first(inputs: Sequence[Sequence[int]]) -> list[int]:
    """All nodes, each behind its inputs. Raises GraphCycle."""
    readers = _readers(inputs)
    waiting = [sum(given != NO_NODE for given in read) for read in inputs]
    order = [node for node, count in enumerate(waiting) if not count]
    for node in order:  # grows
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(inputs):
        raise GraphCycle("nodes of the graph read from each other in a circle")
    return order


def _readers(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each node, once for each time that it is read."""
    readers: list[list[int]] = [[] for _ in inputs]
    for node, read in enumerate(inputs):
        for given in read:
            if given != NO_NODE:
                readers[given].append(node)
    return readers


def _given(graph: LaunchGraph, upwards: Sequence[int]) -> list[bool]:
    """Which nodes no kernel leads to."""
    is_kernel = graph.is_kernel.tolist()
    given = [False] * len(graph)
    for node in upwards:
        given[node] = not is_kernel[node] and all(item == NO_NODE or given[item] for item in graph.inputs[node])
    return given


@dataclass(frozen=True, kw_only=True, slots=True)
class _Edges:
    """What waits for what, in the part of the graph that leads to its end.

    Attributes:
        readers: Of each node, nearest to the end first.
        waiting: For how many reads each node waits.
        free: Nodes that wait for nothing, the first one to be taken last.
    """

    readers: list[list[int]]
    waiting: list[int]
    free: list[int]


def _edges(graph: LaunchGraph, given: Sequence[bool]) -> _Edges:
    count = len(graph)
    readers: list[list[int]] = [[] for _ in range(count)]
    waiting, reads = [0] * count, [0] * count
    needs = [[item for item in inputs if item != NO_NODE and not given[item]] for inputs in graph.inputs]
    near, seen = deque([graph.end]), {graph.end}
    while near:
        node = near.popleft()
        for item in needs[node]:
            readers[item].append(node)
            waiting[node] += 1
            reads[item] += 1
            if item not in seen:
                seen.add(item)
                near.append(item)
    free = _hold_back(graph, needs, reads, readers, waiting)
    return _Edges(readers=readers, waiting=waiting, free=free)


def _hold_back(
    graph: LaunchGraph, needs: list[list[int]], reads: list[int], readers: list[list[int]], waiting: list[int]
) -> list[int]:
    """Adds to ``readers`` and ``waiting`` that kernels which wait for nothing wait for one nearer to the start; those
    that are left."""
    is_kernel = graph.is_kernel.tolist()
    free: list[int] = []
    kernels, others = deque[int](), deque([graph.end])
    while kernels or others:
        node = (others or kernels).popleft()
        if not needs[node]:
            free.append(node)
            continue
        for item in reversed(needs[node]):
            reads[item] -= 1
            if reads[item]:
                continue
            if not is_kernel[item]:
                others.append(item)
                continue
            kernels.append(item)
            if free:
                held = free.pop()
                readers[item].append(held)
                waiting[held] += 1
    return free


class _Queue:
    """What is ready, in the order of its turns.

    Attributes:
        turns: From the nodes that wait for nothing. ``high``: from results of communication, which come before.
        late: Communication whose readers still have to be called; ``fused``: the last that may be fused with others.
    """

    def __init__(self, graph: LaunchGraph, edges: _Edges) -> None:
        self._edges, self._fused_group = edges, graph.fused
        self._is_kernel, self._is_communication = graph.is_kernel.tolist(), graph.is_communication.tolist()
        self._turns, self._high, self._late = deque[int](), deque[int](), deque[int]()
        self._fused: int | None = None
        self._group = ""
        self._done: list[int] = []

    def run(self) -> list[int]:
        free = self._edges.free
        while free or self._late or self._fused is not None:
            if self._late:
                self._call(self._late.popleft(), self._high, is_computed=False)
            elif self._fused is not None:
                self._call_fused()
            else:
                self._turns.append(free.pop())
            while queue := self._high or self._turns:
                self._take(queue.popleft(), queue)
        return self._done

    def _take(self, node: int, queue: deque[int]) -> None:
        if self._is_kernel[node]:
            self._done.append(node)
        if not self._is_communication[node]:
            self._call(node, queue, is_computed=True)
            return
        group = self._fused_group[node]
        if group is None or (self._group and group != self._group):
            self._late.append(node)
            return
        self._group = group
        self._call_fused()
        self._fused = node

    def _call_fused(self) -> None:
        if self._fused is not None:
            node, self._fused = self._fused, None
            self._call(node, self._high, is_computed=False)

    def _call(self, node: int, queue: deque[int], *, is_computed: bool) -> None:
        """Put the readers of a node that wait for nothing else into the queue."""
        readers = self._edges.readers[node]
        waiting, last = self._edges.waiting, []
        for reader in readers:
            waiting[reader] -= 1
            if waiting[reader]:
                continue
            if len(readers) == 1 or not self._is_kernel[reader]:
                queue.appendleft(reader)
            elif self._is_communication[reader] == is_computed:
                queue.append(reader)
            else:
                last.append(reader)
        queue.extend(last)


def _late_casts(graph: LaunchGraph, done: list[int], upwards: Sequence[int]) -> list[int]:
    """``done`` with each Cast of a parameter right before the first kernel that reads it, unless some parameter is
    written in between."""
    source = _sources(graph, upwards)
    place = {node: turn for turn, node in enumerate(done)}
    first = _first_reader(graph, upwards, place)
    writes = list(accumulate(graph.primitive[node].startswith(_WRITES) for node in done))
    moved: dict[int, list[int]] = {}
    for turn, node in enumerate(done):
        if graph.primitive[node] != CAST or source[next(iter(graph.inputs[node]), NO_NODE)] != NO_NODE:
            continue
        if turn < first[node] < _NEVER and writes[turn] == writes[first[node] - 1]:
            moved.setdefault(first[node], []).append(node)
    gone = {node for nodes in moved.values() for node in nodes}
    order: list[int] = []
    for turn, node in enumerate(done):
        order += moved.get(turn, ())
        if node not in gone:
            order.append(node)
    return order


def _sources(graph: LaunchGraph, upwards: Sequence[int]) -> list[int]:
    """The node that the value of each comes from, `NO_NODE` of a parameter; what stands for no node is its own."""
    source = [*range(len(graph)), NO_NODE]  # the last is that of no node
    item = graph.item.tolist()
    for node in upwards:
        inputs = graph.inputs[node]
        if inputs and graph.primitive[node] in SAME_VALUE:
            source[node] = source[inputs[0]]
        elif inputs and inputs[0] != NO_NODE and graph.primitive[inputs[0]] == TUPLE:
            values = graph.inputs[inputs[0]]
            if 0 <= item[node] < len(values):
                source[node] = source[values[item[node]]]
    return source


def _first_reader(graph: LaunchGraph, upwards: Sequence[int], place: dict[int, int]) -> list[int]:
    """The turn of the first kernel that reads each node, also through nodes that have its value, what takes it out of a
    tuple, and a tuple that a kernel is given whole; `_NEVER` without."""
    first, whole = [_NEVER] * len(graph), [_NEVER] * len(graph)
    is_kernel, place_in_tuple = graph.is_kernel.tolist(), graph.item.tolist()
    for node in reversed(upwards):
        inputs, turn = graph.inputs[node], place.get(node, _NEVER)
        given = turn
        if not is_kernel[node]:
            turn, given = first[node], whole[node]
            if graph.primitive[node] == TUPLE:
                turn = given
            elif graph.primitive[node] == ITEM and inputs and inputs[0] != NO_NODE:
                values = graph.inputs[inputs[0]] if graph.primitive[inputs[0]] == TUPLE else ()
                inputs = values[place_in_tuple[node] : place_in_tuple[node] + 1] or inputs[:1]
            elif graph.primitive[node] not in SAME_VALUE:
                turn = _NEVER
        is_same = graph.primitive[node] in SAME_VALUE
        for index, item in enumerate(inputs):
            if item != NO_NODE:
                first[item] = min(first[item], turn)
                whole[item] = whole[item] if is_same and index else min(whole[item], given)
    return first
