"""ACTIONS -> ENTRIES: the fewest names of `layer_swap` and `op_swap` that swap what is to be swapped, and nothing else.

A name covers all below it, and one further inside overrides it, as `op_swap` is written from the outside in. For one
layer the fewest are found exactly, by a recursion over its operators: what a name costs where something around it
already has this or that prefetch. Layers with other actions may use other names of one entry each; what another layer
needs anyway is free, so that several rounds over the layers, from several orders, find a small number for all. That is
exact for one kind of layer; for several it need not be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeAlias

from swapconf.decide.expand import OF_SEVERAL_OUTPUTS
from swapconf.decide.strategy import Action, Recompute, Swap
from swapconf.models.network import LayerTemplate, Operator

Entry: TypeAlias = "tuple[str, int]"  # path of an operator ("" for the layer) and prefetch
Part: TypeAlias = "tuple[LayerTemplate, Mapping[str, Action]]"
_Found: TypeAlias = "dict[_Kind, frozenset[Entry]]"
# new entries, entries, wishes that are not met, layers that could share them (negative), depth
_Cost: TypeAlias = "tuple[int, int, int, int, int]"

_TRIED = 96  # of kinds of layers in a row, over all orders; with more kinds there are fewer orders
_MOST = 4  # so many kinds are tried in every order


@dataclass(slots=True)
class _Node:
    """An operator, the layer, or, where layers of several templates share their entries, all operators of one path.

    Attributes:
        fixed: The prefetches of its own primitives, 0 for what nothing may swap.
        wished: The prefetches of those for which others do as well, as nothing is moved, or as recompute wins.
        below: What is fixed here and below.
    """

    path: str
    children: dict[str, _Node] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)
    wished: list[int] = field(default_factory=list)
    below: frozenset[int] = frozenset()

    @property
    def prefetches(self) -> frozenset[int]:
        """With which it may be named; not at all where something below must not be swapped."""
        return frozenset() if 0 in self.below else self.below

    def settled(self) -> frozenset[int]:
        self.below = frozenset(self.fixed).union(*(child.settled() for child in self.children.values()))
        return self.below


def needs_no_name(operator: Operator, actions: Mapping[str, Action]) -> bool:
    """Whether a swap of an operator surely moves nothing, so that it is as good as none: it does not run, or neither
    the backward pass nor something that runs again reads its output."""
    if operator.saved is not False:
        return False
    readers = [actions.get(path) for path in operator.consumers]
    return operator.executed is False or (
        bool(readers) and not any(reader is None or isinstance(reader, Recompute) for reader in readers)
    )


def runs_again_anyway(operator: Operator, action: Action) -> bool:
    """Whether the model itself recomputes an operator, so that nothing needs to be said of it."""
    return isinstance(action, Recompute) and action.root == operator.path and operator.preset_recompute is True


def covers(layers: Sequence[tuple[Part, ...]]) -> list[frozenset[Entry]]:
    """The entries of each layer. ``layers``: what each of them does; several parts where templates share an index.

    No name is needed for a swap that moves nothing, which may come out as another or as none. What is recomputed may be
    covered by what is swapped around it, as recompute wins there.
    """
    keys = [tuple((template, tuple(actions.items())) for template, actions in parts) for parts in layers]
    parts_of = dict(zip(keys, layers, strict=True))
    kinds = {key: _Kind(_tree(parts_of[key]), count) for key, count in Counter(keys).most_common()}
    sharing: Counter[Entry] = Counter()
    for kind in kinds.values():
        sharing.update(dict.fromkeys(kind.usable, kind.count))
    best = min((_settled(order, sharing) for order in _orders(list(kinds.values()))), key=_size)
    return [best[kinds[key]] for key in keys]


def _orders(kinds: list[_Kind]) -> Iterable[Sequence[_Kind]]:
    if len(kinds) <= _MOST:
        return permutations(kinds)
    return (kinds[turn:] + kinds[:turn] for turn in range(max(1, min(len(kinds), _TRIED // len(kinds)))))


def _size(found: _Found) -> tuple[int, int]:
    names = frozenset[Entry]().union(*found.values())
    return len(names), sum(len(entries) * kind.count for kind, entries in found.items())


def _settled(order: Sequence[_Kind], sharing: Mapping[Entry, int]) -> _Found:
    """Each kind of layer in turn, with what the others need for free, until nothing changes; no round makes it more."""
    found: _Found = {}
    for _ in range(len(order) + 1):
        before = dict(found)
        for kind in order:
            others = (entries for other, entries in found.items() if other is not kind)
            found[kind] = kind.entries(frozenset[Entry]().union(*others), sharing)
        if found == before:
            break
    return found


def _tree(parts: Iterable[Part]) -> _Node:
    root = _Node("")
    for template, actions in parts:
        again = {action.root for action in actions.values() if isinstance(action, Recompute)}
        for operator in template.operators:
            node = root
            names = operator.path.split(".")
            for depth in range(1, len(names) + 1):
                path = ".".join(names[:depth])
                node = node.children.setdefault(path, _Node(path))
            action = actions.get(operator.path)
            if action is not None and not runs_again_anyway(operator, action):
                prefetch = action.prefetch if isinstance(action, Swap) else 0
                if needs_no_name(operator, actions) if prefetch else _swaps_never(operator, action, again):
                    node.wished.append(prefetch)
                else:
                    node.fixed.add(prefetch)
    root.settled()
    return root


def _swaps_never(operator: Operator, action: Action, again: Set[str]) -> bool:
    """Whether it stays as it is though a swap covers it: it runs again, or the model leaves it out of what does."""
    left_out = operator.preset_recompute is False and operator.type not in OF_SEVERAL_OUTPUTS
    return isinstance(action, Recompute) or (
        left_out and any(not root or operator.path.startswith(f"{root}.") for root in again)
    )


def _usable(tree: _Node) -> Iterable[Entry]:
    yield from ((tree.path, prefetch) for prefetch in tree.prefetches)
    for child in tree.children.values():
        yield from _usable(child)


@dataclass(slots=True, eq=False)
class _Kind:
    """Layers that do the same. ``usable``: what may be named in them; ``known``: the cheapest names, by what of that is
    free."""

    tree: _Node
    count: int
    usable: frozenset[Entry] = frozenset()
    known: dict[frozenset[Entry], frozenset[Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.usable = frozenset(_usable(self.tree))

    def entries(self, free: frozenset[Entry], sharing: Mapping[Entry, int]) -> frozenset[Entry]:
        here = free & self.usable
        if here not in self.known:
            self.known[here] = _Solver(here, sharing).entries(self.tree)
        return self.known[here]


@dataclass(slots=True)
class _Solver:
    """The cheapest entries of one tree. ``free``: entries that are there anyway; ``sharing``: how many layers may use
    an entry."""

    free: frozenset[Entry]
    sharing: Mapping[Entry, int]
    known: dict[tuple[str, int], tuple[_Cost, frozenset[Entry]] | None] = field(default_factory=dict)

    def entries(self, tree: _Node) -> frozenset[Entry]:
        found = self._best(tree, 0)
        return found[1] if found is not None else frozenset()

    def _best(self, node: _Node, around: int) -> tuple[_Cost, frozenset[Entry]] | None:
        """The cheapest below a node where ``around`` is the prefetch of what covers it, 0 for nothing; None: no way."""
        if around and 0 in node.below:
            return None
        key = node.path, around
        if key not in self.known:
            ways = [self._below(node, around, None)]
            ways += [self._below(node, other, (node.path, other)) for other in sorted(node.prefetches - {around})]
            self.known[key] = min((way for way in ways if way is not None), key=lambda way: way[0], default=None)
        return self.known[key]

    def _below(self, node: _Node, prefetch: int, named: Entry | None) -> tuple[_Cost, frozenset[Entry]] | None:
        if node.fixed - {prefetch}:
            return None
        idle = sum(wish != prefetch for wish in node.wished)
        cost = 0, 0, idle, 0, 0
        entries: frozenset[Entry] = frozenset()
        if named is not None:
            cost = int(named not in self.free), 1, idle, -self.sharing[named], len(node.path.split("."))
            entries = frozenset({named})
        for child in node.children.values():
            found = self._best(child, prefetch)
            if found is None:
                return None
            more = found[0]
            cost = cost[0] + more[0], cost[1] + more[1], cost[2] + more[2], cost[3] + more[3], cost[4] + more[4]
            entries |= found[1]
        return cost, entries
