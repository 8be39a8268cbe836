"""Pass ``cse``: equal nodes of one func graph become one.

Source: MindSpore, ``cse.cc`` of the front end (`CSE::BuildOrderGroupAndDoReplace`, `CheckReplace`).
It reads primitives, attributes of primitives, inputs and scopes, and changes who reads what: of equal nodes the first
in the topological order stays. What is written in place, as its type tells, stays (2.9.0, not in the public source).
Nodes that run again (scope ``recompute_``) are only merged where `recompute_cell` has
marked them. Constants that are printed without all of their elements may differ where they print alike: nodes that read
such are told apart by their names, too. Compared with MindSpore's graph behind the pass in 7 runs x 3 rounds: equal but
for products of the optimizer that read such constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from swapconf.trace.launch_graph import RETURN, STATE
from swapconf.whatif.lift.func_graphs import CNode, Constant, EarlyFuncGraph, Value, sorted_from
from swapconf.whatif.passes.primal import MAY_MERGE
from swapconf.whatif.passes.recompute_cell import AGAIN

_NUMBERED = re.compile(r"^(equiv_\d+_)+")
_COUNTED = re.compile(r"(?<![A-Za-z])\d+(?=_|$)|_\d+$")
_APART = frozenset({RETURN, "J"})
_HIDDEN, _INPLACE = "side_effect_hidden", "is_inplace"


def merged(graphs: Iterable[EarlyFuncGraph]) -> dict[CNode, CNode]:
    """Edits the func graphs; by each node that went the one that stays."""
    graphs = list(graphs)
    gone = equal(graphs)
    for graph in graphs:
        read_merged(sorted_from(graph.end), gone)
    return gone


def equal(graphs: Iterable[EarlyFuncGraph]) -> dict[CNode, CNode]:
    """By each node that would go the one that would stay."""
    gone: dict[CNode, CNode] = {}
    for graph in graphs:
        known: dict[object, CNode] = {}
        for node in sorted_from(graph.end):  # also what only it reads of the func graphs around
            if node in gone or not _can_be_merged(node):
                continue
            first = known.setdefault(_key(node, gone), node)
            if first is not node:
                gone[node] = first
    return gone


def read_merged(nodes: Iterable[CNode], gone: Mapping[CNode, Value]) -> None:
    for node in nodes:
        node.inputs[:] = [stays(value, gone) for value in node.inputs]


def stays(value: Value, gone: Mapping[CNode, Value]) -> Value:
    while isinstance(value, CNode) and value in gone:
        value = gone[value]
    return value


def plain(name: str) -> str:
    """A name in the IR without what numbers copies."""
    return _NUMBERED.sub("", name)


def _can_be_merged(node: CNode) -> bool:
    runs_again = node.scope.startswith(AGAIN) and MAY_MERGE not in node.marks
    return (
        node.primitive not in _APART and not runs_again and _HIDDEN not in node.attributes and _INPLACE not in node.made
    )


def _key(node: CNode, gone: Mapping[CNode, CNode]) -> object:
    is_shortened = any(isinstance(value, Constant) and value.is_shortened for value in node.inputs)
    return (
        node.graph,
        node.primitive,
        tuple(stays(value, gone) for value in node.inputs),
        tuple(sorted((key, _COUNTED.sub("_N", value)) for key, value in node.attributes.items())),
        plain(node.name) if is_shortened else "",
        node if node.primitive == STATE else None,
    )
