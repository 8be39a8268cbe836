"""Pass ``cse`` of ``opt_a`` once more: nodes that it made one, and would not have made one under a strategy.

Source: MindSpore, ``cse.cc`` of the front end, see `cse`: what runs again is merged with nothing before it does. Of a
run without a strategy there are the graph in front of this pass and the one in front of ``add_recomputation``. Read are
both, the first with marks. The second gets the marks, and in it one node becomes several again, each read by those that
read it in the first. Which nodes of the two are the same, the numbers tell that MindSpore gives nodes, and of nodes
without what they read and whose gradients they are.

Compared with MindSpore's graphs in front of and behind ``add_recomputation`` (`at_once`): all nodes are equal, but for
the order in which one state waits for loads, which no launch depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from swapconf.whatif.lift.func_graphs import CNode, EarlyGraph, Users, own_nodes
from swapconf.whatif.passes.cse import stays


def keep_apart(
    before: EarlyGraph, behind: EarlyGraph, without: Mapping[CNode, CNode], under: Mapping[CNode, CNode]
) -> dict[CNode, CNode]:
    """Edits ``behind``; by each new node the one that it was. ``before``: in front of the pass, with marks;
    ``without``, ``under``: see `cse.equal`, of it without marks and with them."""
    nodes = own_nodes(before.graphs[before.entry], before)
    left = [node for node in nodes if node not in under]
    split = {first for node in left if (first := _stays(node, without)) is not node}
    origins = {node: first for node in left if (first := _stays(node, without)) in split}
    partners = _partners(nodes, behind, without)
    made: dict[CNode, CNode] = {}
    for node in left:
        partner = partners.get(origins.get(node, node))
        if partner is None:
            continue
        if origins.get(node, node) is not node:
            partners[node] = partner = partner.like(partner.inputs, partner.graph)
            made[partner] = partners[origins[node]]
            partner.unique = node.unique
        partner.scope, partner.attributes, partner.marks = node.scope, node.attributes, node.marks
        for place, value in enumerate(node.inputs[: len(partner.inputs)]):
            given = _stays(value, under) if isinstance(value, CNode) else None
            if given in origins and given in partners:
                partner.inputs[place] = partners[given]
    return made


def _stays(node: CNode, gone: Mapping[CNode, CNode]) -> CNode:
    kept = stays(node, gone)
    assert isinstance(kept, CNode)
    return kept


def _partners(nodes: Sequence[CNode], behind: EarlyGraph, without: Mapping[CNode, CNode]) -> dict[CNode, CNode]:
    """By node of the graph in front of the pass that stays that of the graph behind it."""
    readers = behind.users()
    numbered = {(node.primitive, node.unique): node for node in behind.nodes() if node.unique}
    numbers = ((_stays(node, without), (node.primitive, node.unique)) for node in nodes)
    partners = {node: numbered[number] for node, number in numbers if number in numbered}
    taken = set(partners.values())
    for node in nodes:
        partner = None if node in without or node in partners else next(_alike(node, partners, readers, taken), None)
        if partner is not None:
            partners[node] = partner
            taken.add(partner)
    return partners


def _alike(node: CNode, partners: Mapping[CNode, CNode], readers: Users, taken: Set[CNode]) -> Iterator[CNode]:
    """What reads the same at the same places, and is of the same gradient."""
    given = [partners.get(value) if isinstance(value, CNode) else None for value in node.inputs]
    first = next((value for value in given if value is not None), None)
    for user, _ in readers.get(first, ()) if first is not None else ():
        pairs = zip(given, user.inputs, strict=False)
        is_alike = (user.primitive, user.index) == (node.primitive, node.index)
        is_alike = is_alike and user.forward_unique == node.forward_unique
        if is_alike and user not in taken and all(value in (None, other) for value, other in pairs):
            yield user
