"""Passes ``updatestate_useless_node_eliminater``, ``updatestate_pure_node_eliminater`` (of ``b_1``),
``updatestate_depend_eliminate`` and ``updatestate_loads_eliminate``: states between which nothing changes are one.

Source: MindSpore, ``frontend/optimizer/irpass/updatestate_eliminate.cc``, a function each below. They read what an
UpdateState is attached to and change who reads which state: a state goes that is attached to what has no side effect; a
state behind a Depend goes with the Depend (`_behind_depends`); states behind loads that follow one another become one,
whose Depends go (`_behind_loads`). The border of a func graph that is not inlined parts them: what attaches to its call
stays, so that the loads of a recomputed cell are in another state than without.

Of cells that return tuples, of which an element is taken behind the Depend, MindSpore drops the Depend on the io state
with that state (seen in 2.9.0; `taken`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from swapconf.trace.launch_graph import DEPEND, ITEM, LOAD, STATE, TUPLE
from swapconf.whatif.lift.func_graphs import CALL, PARTIAL, Callee, CNode, Constant, Monad, Parameter, Value, met

_SPECIAL = frozenset({ITEM, DEPEND, PARTIAL, TUPLE, CALL})
_MOST_ROUNDS = 4


def merge_states(ends: Sequence[CNode], taken: Mapping[CNode, Sequence[CNode]], *, is_early: bool = False) -> None:
    """Edits what leads to ``ends``. ``taken``: by a Depend of a tuple those of its elements; ``is_early``: of cells
    that are inlined before gradients are made, where tuples are taken apart behind these passes."""
    states = _States(ends, taken, is_early=is_early)
    for _ in range(_MOST_ROUNDS):
        changed = states.behind_nothing()
        changed = states.behind_depends() or changed
        if not (states.behind_loads() or changed):
            break
    if is_early:
        states.forget_io()


def merge_states_of_graphs(ends: Sequence[CNode]) -> None:
    """The same before calls are inlined, once."""
    states = _States(ends, {})
    states.behind_left_out()
    states.behind_depends()
    states.behind_loads()


class _States:
    """Attributes:
    users: Of what leads to the ends; made anew behind each edit.
    inner: Depends that stood in others that went.
    """

    def __init__(
        self, ends: Sequence[CNode], taken: Mapping[CNode, Sequence[CNode]], *, is_early: bool = False
    ) -> None:
        self._ends, self._taken, self._is_early = ends, taken, is_early
        self._users: dict[CNode, list[tuple[CNode, int]]] = {}
        self._inner = set[CNode]()
        self._look()

    def _look(self) -> list[CNode]:
        nodes = met(None, self._ends, first_first=True)
        self._users = {}
        self._alive = set(nodes)
        for node in nodes:
            for place, given in enumerate(node.inputs):
                if isinstance(given, CNode):
                    self._users.setdefault(given, []).append((node, place))
        return nodes

    def _replace(self, node: CNode, value: Value) -> None:
        for user, place in self._users.get(node, ()):
            user.inputs[place] = value
        self._look()

    def _attached(self, *primitives: str) -> Iterator[tuple[CNode, CNode]]:
        """States and what they are attached to, as `DeepScopedGraphSearch` meets them; those that are still there."""
        for node in self._look():
            attached = node.inputs[1] if node.primitive == STATE and len(node.inputs) == 2 else None
            if isinstance(attached, CNode) and node in self._alive and attached.primitive in primitives:
                yield node, attached

    def _only(self, node: CNode, user: CNode) -> bool:
        users = self._users.get(node, [])
        return len(users) == 1 and users[0][0] is user

    def behind_nothing(self) -> bool:
        """`UpdatestateUselessNodeEliminater`, `UpdatestatePureNodeEliminater`."""
        changed = False
        while (node := next(filter(self._is_useless, self._look()), None)) is not None:
            self._replace(node, node.inputs[0])
            changed = True
        return changed

    def behind_left_out(self) -> None:
        """Of what is not recomputed with a cell: it is a parameter then (`not_recompute`), and what was loaded for it
        alone is attached to no state (seen in 2.9.0; no rule of the public source does that in a tuple)."""
        for node in self._look():
            attached = node.inputs[1] if node.primitive == STATE else None
            if isinstance(attached, Parameter):
                self._replace(node, node.inputs[0])
            elif isinstance(attached, CNode) and attached.primitive == TUPLE:
                attached.inputs[:] = [one for one in attached.inputs if not self._is_unread(one, attached)]

    def _is_unread(self, load: Value, attached: CNode) -> bool:
        return isinstance(load, CNode) and load.primitive == LOAD and self._only(load, attached)

    def _is_useless(self, node: CNode) -> bool:
        if node.primitive != STATE or len(node.inputs) != 2:
            return False
        attached = node.inputs[1]
        if not isinstance(attached, CNode):
            return True
        if attached.primitive in (PARTIAL, LOAD) and self._only(attached, node):
            return True
        is_pure = attached.primitive not in _SPECIAL
        return is_pure and not (attached.inputs and monad(attached.inputs[-1]))

    def behind_depends(self) -> bool:
        """`UpdatestateDependEliminater`."""
        changed = False
        for node, _ in list(self._attached(DEPEND)):
            depend = node.inputs[1]
            if node not in self._alive or not isinstance(depend, CNode) or depend.primitive != DEPEND:
                continue
            state, before = depend.inputs[-1], node.inputs[0]
            if monad(state) is None or monad(state) is not monad(before):
                continue
            if isinstance(before, CNode) and before.primitive == STATE and before.inputs[1] is depend:
                continue
            is_io_state = isinstance(state, CNode) and monad(state) is Monad.IO
            if is_io_state or (self._is_early and depend not in self._inner):
                for element in self._taken.get(depend, ()):
                    self._replace(element, element.inputs[0])
            if isinstance(depend.inputs[0], CNode):
                self._inner.add(depend.inputs[0])
            self._replace(depend, depend.inputs[0])
            self._replace(node, state)
            changed = True
        return changed

    def behind_loads(self) -> bool:
        """`UpdatestateLoadsEliminater`."""
        changed = False
        for node, _ in list(self._attached(LOAD, TUPLE)):
            if node not in self._alive:
                continue
            states, loads = self._loads(node)
            if len(states) < 2 or len(loads) < 2:
                continue
            first = loads[-1].inputs[1]
            attached: dict[Value, CNode] = {}
            for load in reversed(loads):
                attached.setdefault(load.inputs[0], load)
                load.inputs[1] = first
            self._look()
            for state in reversed(states[1:]):
                self._replace(state, state.inputs[0])
            self._drop_depends(states[0])
            made = list(attached.values())
            value = made[0] if len(made) == 1 else CNode(TUPLE, list(made), node.graph, scope=node.scope)
            self._replace(node, CNode(STATE, [first, value], node.graph, scope=node.scope, types=node.types))
            changed = True
        return changed

    def _loads(self, node: CNode) -> tuple[list[CNode], list[CNode]]:
        """`GetLoadsFromUpdateState`: states that follow one another, the last one first, and their loads."""
        states, loads = list[CNode](), list[CNode]()
        current: Value = node
        while isinstance(current, CNode) and current.primitive == STATE:
            attached = current.inputs[1]
            if isinstance(attached, CNode) and attached.primitive == LOAD:
                found, following = [attached], attached.inputs[1]
            elif isinstance(attached, CNode) and attached.primitive == TUPLE and self._only(attached, current):
                found = [one for one in attached.inputs if isinstance(one, CNode) and one.primitive == LOAD]
                following = current.inputs[0]
                if len(found) < len(attached.inputs) or any(one.inputs[1] != following for one in found):
                    break
            else:
                break
            states.append(current)
            loads += found
            current = following
        return states, loads

    def _drop_depends(self, state: CNode) -> None:
        """`EliminateUselessNodesForUpdateStates`: where others wait for the state, no Depend does."""
        users = list(self._users.get(state, ()))
        depends = [user for user, place in users if user.primitive == DEPEND and place == 1]
        kept = 1 if depends and len(depends) == len(users) else 0
        for depend in reversed(depends[kept:] if len(users) > 1 else ()):
            self._replace(depend, depend.inputs[0])

    def forget_io(self) -> None:
        """No cell hands an io state on any more."""
        for node in self._look():
            awaited = node.inputs[1] if node.primitive == DEPEND else None
            if isinstance(awaited, Constant) and awaited.monad is Monad.IO:
                self._replace(node, node.inputs[0])


def monad(value: Value) -> Monad | None:
    return None if isinstance(value, Callee) else value.monad
