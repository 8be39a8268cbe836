"""Pass ``offload_activation``: what is marked is copied to the host, and back for the backward pass.

Source: MindSpore, ``frontend/parallel/pass/offload_activation.cc``; right behind `recompute_cell`. It reads the
attributes ``offload`` and ``backward_prefetch`` of primitives and changes: each value of a forward pass that carries
``offload`` and that gradients read gets a MoveTo to the host, and gradients read a MoveTo back to the device; the first
user in the forward pass waits for the first MoveTo by a Depend. What is in a K graph stays, as it runs again.

Which user is first is the order of `node_users` in the manager: first that in which `a_1` inlined them, then what
`recompute_cell` has put there, from the end back (54 of 54 by MindSpore's log). A call that the model leaves out of
recompute stays where the manager met it, mostly in front, and yet another user waits (12 of 12 routers of DeepSeek-V3;
the public source has no such rule, observed), so it is behind all others here.

Compared with MindSpore 2.9.0 in 36 runs of Llama, Qwen3 with and without experts, DeepSeek-V3 and TeleChat3 (first,
middle and last stages; swap of layers and of operators, also beside recompute): 2,152 of 2,152 waits are of its user.
"""

from __future__ import annotations

from typing import NamedTuple

from swapconf.trace.launch_graph import COMMUNICATION, DEPEND, ITEM
from swapconf.whatif.lift.func_graphs import (
    CALL,
    OFFLOAD,
    PREFETCH,
    YES,
    CNode,
    Constant,
    EarlyFuncGraph,
    EarlyGraph,
    own_nodes,
    sorted_from,
)
from swapconf.whatif.passes.a_1 import inlined_in_order

MOVE = "MoveTo"
_TO_HOST, _TO_DEVICE = Constant('"CPU"'), Constant('"Ascend"')
_AGAIN = "recompute"


class _Read(NamedTuple):
    """A gradient reads a value that is to move: ``user`` at ``place``."""

    value: CNode
    user: CNode
    place: int


def offload(module: EarlyGraph) -> int:
    """Edits the module; how many reads of gradients were moved."""
    users = module.users()
    pairs = [(graph, module.graphs[closure.name]) for graph in module.reached() if (closure := graph.closure)]
    for forward, _ in pairs:
        _mark_communication(forward, users)
    reads = [(forward, backward, read) for forward, backward in pairs for read in _reads(forward, backward)]
    for forward in dict.fromkeys(read.value.graph for _, _, read in reads):
        _sort_as_manager(forward, module, users)
    back: dict[tuple[CNode, EarlyFuncGraph], CNode] = {}
    for forward, backward, read in reads:
        _move(forward, backward, read, users, back)
    return len(reads)


def _is(node: CNode, attribute: str) -> bool:
    return node.attributes.get(attribute) == YES


def _mark_communication(forward: EarlyFuncGraph, users: dict[CNode, list[tuple[CNode, int]]]) -> None:
    for node in sorted_from(forward.end, first_first=False):
        if node.graph is not forward or not _is(node, OFFLOAD):
            continue
        for user, _ in users.get(node, ()):
            if user.graph is forward and user.primitive in COMMUNICATION:
                handed = {key: node.attributes[key] for key in (OFFLOAD, PREFETCH) if key in node.attributes}
                user.attributes = {**user.attributes, **handed}


def _reads(forward: EarlyFuncGraph, backward: EarlyFuncGraph) -> list[_Read]:
    found = list[_Read]()
    for node in sorted_from(backward.end, first_first=False):
        if node.graph is not backward:
            continue
        for place, given in enumerate(node.inputs):
            is_marked = isinstance(given, CNode) and given.graph is forward and _is(given, OFFLOAD)
            if isinstance(given, CNode) and is_marked and not _is(given, _AGAIN) and not forward.is_k_graph:
                found.append(_Read(given, node, place))
    return found


def _move(
    forward: EarlyFuncGraph,
    backward: EarlyFuncGraph,
    read: _Read,
    users: dict[CNode, list[tuple[CNode, int]]],
    back: dict[tuple[CNode, EarlyFuncGraph], CNode],
) -> None:
    value, user, place = read
    if user.primitive == ITEM:  # of a tuple the output moves
        value = CNode(ITEM, [read.value, user.inputs[1]], forward, scope=value.scope, types=user.types)
        users.setdefault(read.value, []).append((value, 0))
    copy = back.get((value, backward))
    if copy is None:
        attributes = {PREFETCH: read.value.attributes.get(PREFETCH, Constant.of(1).text)}
        out = CNode(MOVE, [value, _TO_HOST, Constant("Bool(0)")], forward, attributes=attributes)
        out.scope, out.types = value.scope, value.types
        _let_wait(forward, value, out, users)
        copy = CNode(MOVE, [out, _TO_DEVICE, Constant("Bool(0)")], backward, attributes=attributes)
        copy.scope, copy.types = user.scope, value.types
    if user.primitive == ITEM:
        for other, at in users.pop(user, []):
            other.inputs[at] = copy
            users.setdefault(copy, []).append((other, at))
    else:
        user.inputs[place] = copy
        users.setdefault(copy, []).append((user, place))
        back[value, backward] = copy


def _let_wait(forward: EarlyFuncGraph, value: CNode, out: CNode, users: dict[CNode, list[tuple[CNode, int]]]) -> None:
    known = users.setdefault(value, [])
    first = next((one for one in known if one[0].graph is forward), None)
    known.append((out, 0))
    if first is not None:
        user, place = first
        tie = CNode(DEPEND, [value, out], forward, scope=value.scope, types=value.types)
        user.inputs[place] = tie
        known.remove(first)
        known.append((tie, 0))
        users.setdefault(tie, []).append(first)
        users.setdefault(out, []).append((tie, 1))


def _sort_as_manager(forward: EarlyFuncGraph, module: EarlyGraph, users: dict[CNode, list[tuple[CNode, int]]]) -> None:
    """`node_users` of the values of a forward pass, as far as users are in it."""
    nodes = own_nodes(forward)[::-1]
    inside = {node.unique for node in module.nodes() if node.graph.is_k_graph}
    kept = {node for node in nodes if node.primitive == CALL or (node.unique and node.unique in inside)}
    turns = inlined_in_order(forward, kept)
    order = {node: (turns.get(node, len(turns)), turn) for turn, node in enumerate(nodes)}
    for node in nodes:
        if node in users:
            users[node].sort(key=lambda use: order.get(use[0], (0, 0)))  # gradients never wait
