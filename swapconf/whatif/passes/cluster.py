"""Pass ``graph_kernel_cluster``: which nodes of a func graph MindSpore fuses into one kernel (``jit_level: O1``).

Source: MindSpore, ``graph_fusion/core/graph_kernel_cluster.cc`` (`Graph`, `CircleChecker`), and of its back end for
Ascend ``adapter/graph_kernel_cluster_cloud.cc`` with `DvmSupportChecker`. It runs once for each func graph, before
calls are put in their places, so that no cluster reaches from the forward pass into the backward pass, or into another
micro-batch. From the last node back, each base collects what can be clustered among its inputs, and theirs
(`FindCandidates`); what would make the cluster wait for itself is taken out (`CircleChecker`); the rest becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from functools import lru_cache

from swapconf.trace.func_graph_text import CALL, FuncGraph, FuncNode, Kind
from swapconf.trace.launch_graph import ITEM
from swapconf.trace.postorder import postorder
from swapconf.trace.tensor import Tensor

_FLOATS = frozenset({"BFloat16", "Float16", "Float32"})
_COMPARING = frozenset({"Equal", "Greater", "GreaterEqual", "IsFinite", "Less", "LessEqual", "NotEqual"})
_OF_INTEGERS = frozenset({"Abs", "Add", "Assign", "BroadcastTo", "Maximum", "Minimum", "Mul", "Neg", "Sub"})
_CASTING = _FLOATS | {"Bool", "Int32"}
_KNOWN_GRAPHS = 64
_KEEP_BASIC = ("aggregate", "keep_basic", "primitive_target")  # attributes of what is not fused, whatever their value


def clusters(graph: FuncGraph, clustered: Collection[str]) -> tuple[frozenset[int], ...]:
    """The numbers of the nodes of each cluster, among those of the graph. ``clustered``: primitives that may be."""
    (end,) = [item.number for item in graph.nodes[-1].arguments if item.kind is Kind.NODE][:1] or [len(graph.nodes) - 1]
    numbers = postorder([end], lambda node: _inputs(graph.nodes[node]))
    nodes = [graph.nodes[number] for number in numbers]
    place = {number: index for index, number in enumerate(numbers)}
    can = [can_be_clustered(node, clustered) for node in nodes]
    found = grown(
        [[place[item] for item in _inputs(node)] for node in nodes], can, [node.primitive == ITEM for node in nodes]
    )
    fused = (cluster for cluster in found if _is_fused(cluster, nodes, can))
    return tuple(frozenset(numbers[place] for place in cluster) for cluster in fused)


def _is_fused(cluster: Sequence[int], nodes: Sequence[FuncNode], can: Sequence[bool]) -> bool:
    """Single operators become kernels of their own kind, too, but for what is a graph or assigns."""
    real = [node for node in cluster if nodes[node].primitive != ITEM]
    if len(real) != 1:
        return bool(real)
    return nodes[cluster[0]].primitive not in (CALL, "Assign") and can[cluster[0]]


def _inputs(node: FuncNode) -> list[int]:
    return [item.number for item in node.arguments if item.kind is Kind.NODE]


def can_be_clustered(node: FuncNode, clustered: Collection[str]) -> bool:
    """`IsClusterableOp`: what the kernel generator DVM takes, by primitive and types; and what was expanded before."""
    if node.primitive == CALL:
        return True
    attributes = node.attributes
    if any(name in attributes for name in _KEEP_BASIC) or any(name.startswith("inplace_") for name in attributes):
        return False
    has_nothing = any(tensor is not None and 0 in tensor.shape for tensor in (*node.given, *node.made))
    made = node.made[0] if node.made else None
    if node.primitive not in clustered or attributes.get("skip") == "Bool(1)" or has_nothing or made is None:
        return False
    return _is_supported(node.primitive, node.given, made.dtype)


def _is_supported(primitive: str, given: tuple[Tensor | None, ...], made: str) -> bool:
    """`DvmSupportChecker`."""
    first = given[0].dtype if given and given[0] is not None else ""
    if primitive == "Cast":
        return first in _CASTING and made in _CASTING
    if primitive in _COMPARING:
        return first in _FLOATS or (first == "Int32" and primitive != "IsFinite")
    if primitive == "ReduceSum":
        return made in _FLOATS and _are_of(given[:1], made)
    if primitive == "Select":
        return first == "Bool" and made in _FLOATS and _are_of(given[1:3], made)
    if primitive in _OF_INTEGERS:
        return (made in _FLOATS or made == "Int32") and _are_of(
            given[:1] if primitive == "BroadcastTo" else given, made
        )
    if primitive == "Transpose":
        return made in ("Float16", "Float32") and _are_of(given, made)
    return made in _FLOATS and _are_of(given, made)


def _are_of(given: Iterable[Tensor | None], made: str) -> bool:
    """Of one type, or of those that 2.9.0 converts afterwards (its pass convert_mix_type)."""
    return all(item is None or item.dtype == made or {item.dtype, made} <= _FLOATS | {"Int32"} for item in given)


def grown(given: Iterable[Iterable[int]], can: Iterable[bool], is_item: Iterable[bool]) -> tuple[tuple[int, ...], ...]:
    """All nodes by cluster, those that are alone, too. Nodes stand in topological order; ``given``: what each reads;
    ``can``: it can be clustered; ``is_item``: it takes a value out of several. Micro-batches are alike, and so are most
    func graphs of most strategies: of the latest ones the answer is known."""
    return _grown(tuple(map(tuple, given)), tuple(can), tuple(is_item))


@lru_cache(maxsize=_KNOWN_GRAPHS)
def _grown(
    given: tuple[tuple[int, ...], ...], can: tuple[bool, ...], is_item: tuple[bool, ...]
) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, _Graph(given, can, is_item).clusters()))


class _Graph:
    """Clusters that grow, each known by the first of its nodes in topological order.

    ``cluster``: by node the cluster that it joined, itself at first; ``last``: by cluster of several the last of its
    nodes; ``given``, ``readers``: by cluster those that it reads, and that read it; ``ordered``: the first in order, as
    far as it was asked for since it changed.
    """

    def __init__(self, given: Sequence[Iterable[int]], can: Sequence[bool], is_item: Sequence[bool]) -> None:
        self._given = [set(read) - {node} for node, read in enumerate(given)]
        self._readers: list[set[int]] = [set() for _ in given]
        for node, read in enumerate(self._given):
            for one in read:
                self._readers[one].add(node)
        self._ordered: dict[int, list[int]] = {}
        self._cluster = list(range(len(given)))
        self._size = [1] * len(given)
        self._last: dict[int, int] = {}
        self._is_clusterable, self._is_item = can, is_item

    def clusters(self) -> list[list[int]]:
        for base in reversed(range(len(self._given))):
            if self._size[self._of(base)] == 1:
                self._merge(self._without_lone_items(self._without_circles(self._candidates(base))))
        found: dict[int, list[int]] = {}
        for node in range(len(self._given)):
            found.setdefault(self._of(node), []).append(node)
        return list(found.values())

    def _of(self, node: int) -> int:
        while self._cluster[node] != node:
            node = self._cluster[node]
        return node

    def _inputs_of(self, cluster: int) -> list[int]:
        """In order."""
        if cluster not in self._ordered:
            self._ordered[cluster] = sorted(self._given[cluster])
        return self._ordered[cluster]

    def _visit(self, start: int, goes_on: Callable[[int], bool]) -> None:
        """Depth first, of the inputs the last one first."""
        seen: set[int] = set()
        stack = [start]
        while stack:
            cluster = stack.pop()
            if cluster not in seen:
                seen.add(cluster)
                if goes_on(cluster):
                    stack += self._inputs_of(cluster)

    def _candidates(self, base: int) -> list[int]:
        """`FindCandidates`: what can be clustered, down to what cannot, or is a cluster already."""
        found: list[int] = []

        def take(cluster: int) -> bool:
            if not self._is_clusterable[cluster] and not self._is_item[cluster]:
                return False
            found.append(cluster)
            return self._size[cluster] == 1

        self._visit(base, take)
        return found[::-1]

    def _without_circles(self, candidates: list[int]) -> list[int]:
        """`CircleChecker::RemoveCircle`: a candidate that is reached from another one through what is none would wait
        for the kernel that waits for it; it is left out, with all candidates behind it."""
        if len(candidates) < 2:
            return candidates
        left, acyclic, lowest = set(candidates), set[int](), self._lowest(min(candidates))
        for base in candidates:
            if base in left:
                for reached in self._reached(base, left, acyclic, lowest):
                    self._leave_out(reached, left)
        return [cluster for cluster in candidates if cluster in left]

    def _lowest(self, node: int) -> int:
        """What wholly stands in front of this needs nothing from ``node`` on: no cluster reaches across it."""
        lowest, previous = node, -1
        while lowest != previous:
            previous = lowest
            lowest = min((first for first, last in self._last.items() if first < lowest <= last), default=lowest)
        return lowest

    def _leave_out(self, reached: int, left: set[int]) -> None:
        def leaves(cluster: int) -> bool:
            was_left = cluster in left
            left.discard(cluster)
            return was_left

        self._visit(reached, leaves)

    def _reached(self, base: int, left: Set[int], acyclic: set[int], lowest: int) -> list[int]:
        """Candidates that inputs of ``base`` which are none need. ``acyclic``: what is known to need none; so does what
        stands in front of ``lowest``."""
        circle: list[int] = []
        closed = set[int]()  # what led to one of them
        for start in [one for one in self._inputs_of(base) if one not in left]:
            found, passed = self._needed(start, left, acyclic | closed, lowest)
            circle += found
            (closed if found else acyclic).update(passed)
        return circle

    def _needed(self, start: int, left: Set[int], known: Set[int], lowest: int) -> tuple[list[int], set[int]]:
        """(candidates that ``start`` needs, all that was met on the way), but for what is ``known``, or in front of
        ``lowest``."""
        found: list[int] = []
        passed: set[int] = set()

        def goes_on(cluster: int) -> bool:
            if cluster in known or self._last.get(cluster, cluster) < lowest:
                return False
            passed.add(cluster)
            if cluster in left:
                found.append(cluster)
            return cluster not in left

        self._visit(start, goes_on)
        return found, passed

    def _without_lone_items(self, candidates: list[int]) -> list[int]:
        """`RemoveWildGetitem`: a TupleGetItem goes with what makes its tuple."""
        left = set(candidates)
        for cluster in sorted(left):
            is_item = self._is_item[cluster] and self._size[cluster] == 1
            if is_item and not self._given[cluster] & left:
                left.discard(cluster)
        return [cluster for cluster in candidates if cluster in left]

    def _merge(self, candidates: list[int]) -> None:
        if len(candidates) < 2:
            return
        first, group = min(candidates), set(candidates)
        self._last[first] = max(self._last.pop(cluster, cluster) for cluster in candidates)
        given = set[int]().union(*(self._given[cluster] for cluster in candidates)) - group
        readers = set[int]().union(*(self._readers[cluster] for cluster in candidates)) - group
        for beside, changed in ((self._readers, given), (self._given, readers)):
            for cluster in changed:
                beside[cluster] -= group
                beside[cluster].add(first)
        for cluster in (*readers, first):
            self._ordered.pop(cluster, None)
        self._given[first], self._readers[first] = given, readers
        for cluster in group - {first}:
            self._cluster[cluster] = first
            self._size[first] += self._size[cluster]
