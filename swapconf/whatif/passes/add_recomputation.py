"""Pass ``add_recomputation``: what runs again, without lazy inline, runs again behind the gradients that need it.

Source: MindSpore, ``frontend/optimizer/recompute.cc`` (`InsertRecomputedNodes`) and ``utils/recompute_helper.cc``. It
acts on the func graph of the training step, in which forward and backward pass stand side by side, and reads scopes,
the attribute ``recompute`` of primitives, and that of nodes, which outputs of recomputed cells have with the value
False. Changed is, for each part of what runs again that is connected (`GetMaxSubGraph`), in their topological order:

- Gradients that read it (targets) read a copy of it, made of all of that part that it needs
  (`DuplicateRecomputedNodes`).
- What begins in the copy waits with its first input for what the first of these gradients is given of gradients of
  others (`GetFirstTargetInputs`).

Of 2.9.0, and not in the public source: the tuple that such a node is given runs again, too (DeepSeek-V3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, STATE, TUPLE
from swapconf.trace.postorder import postorder
from swapconf.upstream.scopes import GRADIENTS
from swapconf.whatif.lift.func_graphs import (
    NO,
    RECOMPUTE,
    YES,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    Monad,
    Value,
    own_nodes,
    seen_through,
)
from swapconf.whatif.passes.primal import MAY_MERGE
from swapconf.whatif.passes.recompute_cell import AGAIN

CELL_OUTPUT = "recompute"  # a mark: an output of a recomputed cell, which does not run again
_NEVER = frozenset({"DropoutGenMask", LOAD, ITEM, "Send", "Receive"})


def add_recomputation(module: EarlyGraph) -> dict[CNode, CNode]:
    """Edits the func graph of the training step; by each copy what it is of."""
    return _Recomputation(module.graphs[module.entry]).run()


@dataclass
class _Recomputation:
    """``marked``: what may run again; ``copies``: what does."""

    graph: EarlyFuncGraph
    users: dict[CNode, dict[CNode, None]] = field(default_factory=dict)
    marked: set[CNode] = field(default_factory=set)
    copies: dict[CNode, CNode] = field(default_factory=dict)

    def run(self) -> dict[CNode, CNode]:
        nodes = own_nodes(self.graph)
        for node in nodes:
            self._let_read(node)
        self._mark(nodes)
        done = set[CNode]()
        for node in [node for node in nodes if self._is_candidate(node)]:
            if node not in done:
                part = self._connected([node], with_users=True)
                done |= part.keys()
                self._run_again(part, nodes)
        for node in nodes:
            if _is_scoped(node):
                node.marks |= {MAY_MERGE}
        return self.copies

    def _let_read(self, node: CNode) -> None:
        for given in reads(node):
            self.users.setdefault(given, {})[node] = None

    def _mark(self, nodes: Iterable[CNode]) -> None:
        """`SetRecomputedAttr`."""
        behind_gradients = dict[CNode, bool]()
        for node in nodes:
            behind_gradients[node] = _is_behind(node, behind_gradients)
            if CELL_OUTPUT in node.marks or is_gradient(node) or node.primitive in _NEVER:
                continue
            if all(is_gradient(user) for user in self._users(node)) or behind_gradients[node]:
                continue
            value, shown = node.attributes.get(RECOMPUTE), node.inputs[0] if node.primitive == DEPEND else None
            is_scoped = _is_scoped(node) or (isinstance(shown, CNode) and _is_scoped(shown))
            if value == YES or (value != NO and is_scoped):
                self.marked.add(node)
                self.marked.update(user for user in self._users(node) if user.primitive == ITEM)
                self.marked.update(given for given in reads(node) if given.primitive == TUPLE)

    def _users(self, node: CNode) -> list[CNode]:
        return list(self.users.get(node, ()))

    def _may_run_again(self, node: CNode) -> bool:
        """`IsCandidateRecomputedNode`."""
        return node in self.marked and (node.primitive == ITEM or not is_gradient(node))

    def _is_candidate(self, node: CNode) -> bool:
        """`FindCandidateRecomputedNodes`."""
        return (
            self._may_run_again(node)
            and any(is_gradient(user) for user in self._users(node))
            and not any(is_gradient(given) for given in reads(node))
        )

    def _connected(self, start: Iterable[CNode], *, with_users: bool) -> dict[CNode, None]:
        """`GetMaxSubGraph`."""
        connected, left = dict[CNode, None](), deque(start)
        while left:
            node = left.popleft()
            if node in connected:
                continue
            connected[node] = None
            if node.primitive != STATE:
                left += filter(self._may_run_again, [*reads(node), *(self._users(node) if with_users else ())])
        return connected

    def _run_again(self, part: Collection[CNode], nodes: Sequence[CNode]) -> None:
        targets = {
            user: None for node in part for user in self._users(node) if is_gradient(user) and user.primitive != ITEM
        }
        read = [node for node in part if any(user in targets for user in self._users(node))]
        again = self._connected(read, with_users=False).keys()
        copied = _Copied(self.graph, again, self._awaited(part, again, targets.keys(), nodes))
        for target in targets:
            given = [copied.of(value) if value in again else value for value in target.inputs]
            for value in reads(target):
                self.users[value].pop(target, None)
            target.inputs[:] = given
            self._let_read(target)
        for node in copied.added:
            self._let_read(node)
        self.copies |= {copy: node for node, copy in copied.made.items()}

    def _awaited(
        self, part: Iterable[CNode], again: Set[CNode], targets: Set[CNode], nodes: Iterable[CNode]
    ) -> list[CNode]:
        """`GetFirstTargetInputs`."""
        own = {node.unique for node in part if node.unique}
        is_behind: dict[CNode, bool] = {}

        def followed(node: CNode) -> Iterator[CNode]:
            is_end = node in is_behind or node in again or node in targets or not is_gradient(node)
            return iter(()) if is_end else reads(node)

        def comes_of(gradient: CNode) -> bool:
            """`HasTargetOrRecomputeInputs`."""
            for node in postorder([gradient], followed):
                if node not in is_behind:
                    is_start = node in again or node in targets
                    is_behind[node] = is_start or any(is_behind[given] for given in followed(node))
            return is_behind[gradient]

        awaited = list[CNode]()
        for target in nodes:
            for given in reads(target) if target in targets else ():
                if is_gradient(given) and not comes_of(given):
                    awaited += _borders(given, own)
            if awaited:
                break
        return awaited


def _borders(gradient: CNode, own: Set[str]) -> list[CNode]:
    """What the gradients of a part are given of others, above a gradient; itself where it reads none of the part's."""

    def is_own(node: CNode) -> bool:
        return bool(node.forward_unique) and node.forward_unique in own

    def of_others(node: CNode) -> list[CNode]:
        return [given for given in reads(node) if given.forward_unique and not is_own(given)]

    awaited = list[CNode]()
    for start in filter(is_own, reads(gradient)):
        borders, left = list[CNode](), deque([start])
        while left:
            node = left.popleft()
            if of_others(node):
                borders.append(node)
            else:
                left += filter(is_own, reads(node))
        awaited += [given for node in borders for given in of_others(node)] or [gradient]
    return awaited or [gradient]


@dataclass
class _Copied:
    """``made``: the copies, by what they are of; ``added``: with what lets them wait."""

    graph: EarlyFuncGraph
    again: Collection[CNode]
    awaited: Sequence[CNode]
    made: dict[CNode, CNode] = field(default_factory=dict)
    added: list[CNode] = field(default_factory=list)

    def of(self, value: Value) -> CNode:
        """`NewRecomputedNode`."""
        assert isinstance(value, CNode)
        for node in postorder([value], self._not_made):
            if node not in self.made:
                self.made[node] = self._copy(node)
        return self.made[value]

    def _not_made(self, node: CNode) -> Iterator[CNode]:
        return (given for given in reads(node) if given in self.again and given not in self.made)

    def _copy(self, node: CNode) -> CNode:
        given = [self._input(value) for value in node.inputs]
        if given and not any(value in self.again for value in reads(node)):
            awaited = CNode(TUPLE, list(self.awaited), self.graph)
            waiting = CNode(DEPEND, [given[0], awaited], self.graph)
            self.added += [awaited, waiting]
            given[0] = waiting
        copy = node.like(given, self.graph)
        copy.marks |= {MAY_MERGE}
        self.added.append(copy)
        return copy

    def _input(self, value: Value) -> Value:
        if not isinstance(value, CNode):
            return value
        if value not in self.again:
            return Constant(Monad.MEMORY.value) if value.primitive == STATE else value
        return self.made[value]


def is_gradient(node: CNode) -> bool:
    """`IsBpropNode`."""
    value = seen_through(node, (ITEM,))
    return isinstance(value, CNode) and value.scope.startswith(GRADIENTS)


def _is_behind(node: CNode, behind_gradients: Mapping[CNode, bool]) -> bool:
    """`HasGradInputs`. ``behind_gradients``: of what it reads."""
    read = (value for value in (node.inputs[:1] if node.primitive == DEPEND else node.inputs))
    return any(
        isinstance(value, CNode) and (is_gradient(value) or behind_gradients.get(value, False)) for value in read
    )


def _is_scoped(node: CNode) -> bool:
    """`WithRecomputedScope`."""
    return node.scope.startswith(AGAIN)


def reads(node: CNode) -> Iterator[CNode]:
    return (value for value in node.inputs if isinstance(value, CNode))
