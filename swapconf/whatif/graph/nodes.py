"""LAUNCH GRAPH <-> NODES that can be added and told to read others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, NO_NODE, STATE, TUPLE, UNLAUNCHED, LaunchGraph

MOVE, COPY = "MoveTo", "TensorMove"


class Nodes:
    """The nodes of a graph and those that a strategy adds behind them; columns as in `LaunchGraph`."""

    def __init__(self, graph: LaunchGraph) -> None:
        self.primitive, self.name, self.item = list(graph.primitive), list(graph.name), graph.item.tolist()
        self.inputs: list[list[int]] = [list(given) for given in graph.inputs]
        self.fused = list(graph.fused)
        self.cluster = list(graph.cluster or [NO_NODE] * len(graph))  # see `LaunchGraph`
        self.given = list(graph.given or [()] * len(graph))
        self.end, self.behind = graph.end, graph.behind
        self.count = len(graph)  # of the baseline

    def __len__(self) -> int:
        return len(self.primitive)

    @property
    def is_fused(self) -> bool:
        """Whether some are operators of fused kernels."""
        return any(cluster != NO_NODE for cluster in self.cluster)

    def add(
        self, primitive: str, inputs: Sequence[int], name: str = "", item: int = NO_NODE, fused: str | None = None
    ) -> int:
        self.primitive.append(primitive)
        self.inputs.append(list(inputs))
        self.name.append(name)
        self.item.append(item)
        self.fused.append(fused)
        self.cluster.append(NO_NODE)
        self.given.append(())
        return len(self.primitive) - 1

    def double(self, node: int) -> None:
        """Let a node read another one like it, which reads what it has read: two views instead of one."""
        first, *rest = self.inputs[node]
        self.inputs[node] = [self.add(self.primitive[node], (first, *rest), self.name[node]), *rest]

    def tied(self, value: int, awaited: int) -> int:
        """The value, as who waits for something else, too, sees it."""
        return self.add(DEPEND, (value, awaited))

    def values(self, node: int) -> list[int]:
        """What a node reads, also in tuples."""
        return [
            value
            for given in self.inputs[node]
            if given != NO_NODE
            for value in (self.inputs[given] if self.primitive[given] == TUPLE else (given,))
            if value != NO_NODE
        ]

    def maker(self, value: int) -> int:
        """The node that a value, or what is loaded of a parameter, is an output of; `NO_NODE` for none."""
        while value != NO_NODE and self.primitive[value] in (DEPEND, ITEM, LOAD):
            value = self.inputs[value][0]
        return value

    def copied(self, node: int) -> int:
        """The load of a parameter that a node is a copy of; `NO_NODE` for another node."""
        is_copy = node != NO_NODE and self.primitive[node] == COPY and bool(self.inputs[node])
        load = self.inputs[node][0] if is_copy else NO_NODE
        return load if load != NO_NODE and self.primitive[load] == LOAD else NO_NODE

    def read_instead(self, user: int, instead: Mapping[int, int]) -> None:
        """``instead``: by node what the user reads instead of it."""
        self.inputs[user] = [instead.get(given, given) for given in self.inputs[user]]

    def waits_for_state(self, value: int) -> bool:
        """Who sees the value reads parameters in the state behind it."""
        while value != NO_NODE and self.primitive[value] == DEPEND:
            value, awaited = self.inputs[value][:2]
            if awaited != NO_NODE and self.primitive[awaited] == STATE:
                return True
        return False

    def is_kernel(self, node: int) -> bool:
        return self.primitive[node] not in UNLAUNCHED

    def frozen(self) -> LaunchGraph:
        nothing = ("",) * len(self)
        return LaunchGraph(
            name=tuple(self.name),
            primitive=tuple(self.primitive),
            inputs=tuple(map(tuple, self.inputs)),
            item=np.array(self.item, dtype=np.int64),
            unique=nothing,
            forward_unique=nothing,
            fused=tuple(self.fused),
            cluster=tuple(self.cluster),
            given=tuple(self.given),
            end=self.end,
            behind=self.behind,
        )
