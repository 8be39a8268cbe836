"""LAYERS + LAST GRAPH -> LAYERS: what the graph of a run tells of the operators of a model that the catalog lacks.

For a known family the catalog has measured once which operators a layer executes, who reads their outputs, and whose
output a gradient reads. Of any other model the last graph of its own run without swap and recompute tells it. There
MindSpore has merged equal nodes, so of a view or a cast that it lacks nothing is known: flagged otherwise than its
twin, it would be there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from swapconf.models.network import LayerTemplate, Operator
from swapconf.models.own_layers import OwnLayers
from swapconf.trace.launch_graph import DEPEND, ITEM, NO_NODE, RETURN, SAME_VALUE, STATE, TUPLE, LaunchGraph
from swapconf.upstream.primitives import VIEWS, plain
from swapconf.upstream.scopes import GRADIENTS, InLayer, in_layer

_TRANSPARENT = SAME_VALUE | {ITEM, TUPLE}
_NO_READERS = frozenset({RETURN, STATE})
_MERGED = VIEWS | {"Cast", "Transpose"}


def with_graph(layers: OwnLayers, graph: LaunchGraph, called: Mapping[str, str]) -> OwnLayers:
    """``called``: by the name of a node, the attribute of its cell that it is a call of."""
    owner, doubtful = _owners(layers.templates, graph, called)
    read, saved = _read(graph, owner)
    facts = {template: _with_facts(template, read, saved, doubtful) for template in {*layers.templates.values()}}
    return OwnLayers(
        templates={index: facts[template] for index, template in layers.templates.items()},
        called=dict(_named(layers.templates, graph, called)),
    )


_Owner = tuple[LayerTemplate, str]


def _owners(
    templates: Mapping[int, LayerTemplate], graph: LaunchGraph, called: Mapping[str, str]
) -> tuple[dict[int, tuple[int, _Owner]], set[_Owner]]:
    """By node of the forward pass its layer, and the template and path of its primitive; and those that a node may be
    of which neither its source nor its type tells which it is."""
    doubtful: set[_Owner] = set()
    by_cell = {template: _by_cell(template) for template in {*templates.values()}}
    found: dict[int, tuple[int, _Owner]] = {}
    for node, (name, primitive) in enumerate(zip(graph.name, graph.primitive, strict=True)):
        place = _place(name) if not graph.forward_unique[node] else None
        template = templates.get(place.index) if place is not None and not place.is_extra else None
        if place is None or template is None:
            continue
        path = ".".join(filter(None, (place.cell, called.get(name, ""))))
        operator = template.by_path.get(path)
        if operator is None or operator.kind != "primitive":
            alike = by_cell[template].get((place.cell, plain(primitive)), [])
            operator = alike[0] if len(alike) == 1 else None
            if len(alike) > 1:
                doubtful.update((template, one.path) for one in alike)
        if operator is not None:
            found[node] = place.index, (template, operator.path)
    return found, doubtful


def _place(name: str) -> InLayer | None:
    """Of a node of the forward pass."""
    return None if name.startswith(GRADIENTS) else in_layer(name.rpartition("/")[0])


def _by_cell(template: LayerTemplate) -> Mapping[tuple[str, str], list[Operator]]:
    """The primitives of a template by cell and type."""
    found: defaultdict[tuple[str, str], list[Operator]] = defaultdict(list)
    for operator in template.primitives:
        found[operator.path.rpartition(".")[0], plain(operator.type)].append(operator)
    return found


def _read(
    graph: LaunchGraph, owner: Mapping[int, tuple[int, _Owner]]
) -> tuple[dict[_Owner, set[str]], dict[_Owner, bool | None]]:
    """By primitive who reads its output in its layer; and whether a gradient does, or what runs again for it: of a view
    in any of its calls, of others None where it does in some of several calls."""
    made, again = _made(graph), _again(graph, owner)
    read: defaultdict[_Owner, set[str]] = defaultdict(set)
    saved: set[int] = set()
    nodes: defaultdict[_Owner, set[int]] = defaultdict(set)
    for node, (_, own) in owner.items():
        if node not in again:
            nodes[own].add(node)
    for node, inputs in enumerate(graph.inputs):
        if graph.primitive[node] in _TRANSPARENT or graph.primitive[node] in _NO_READERS:
            continue
        reader = owner.get(node)
        for source in {made[one] for one in inputs if one >= 0}:
            if source not in owner or source in again:
                continue
            layer, own = owner[source]
            if _is_gradient(graph, node) or node in again:
                saved.add(source)
            if reader is not None and reader[0] == layer:
                read[own].add(reader[1][1])
    return {own: read[own] for own in nodes}, {own: _of_calls(own, calls, saved) for own, calls in nodes.items()}


def _of_calls(own: _Owner, calls: set[int], saved: set[int]) -> bool | None:
    template, path = own
    if template.by_path[path].type in VIEWS or calls <= saved:
        return not calls.isdisjoint(saved)
    return False if calls.isdisjoint(saved) else None


def _made(graph: LaunchGraph) -> list[int]:
    """By node the one that made the value which it hands on; itself, where it makes one. Inputs stand before it."""
    made: list[int] = []
    for node, (primitive, inputs) in enumerate(zip(graph.primitive, graph.inputs, strict=True)):
        source, item = inputs[0] if inputs else NO_NODE, int(graph.item[node])
        if primitive not in _TRANSPARENT - {TUPLE} or source < 0:
            made.append(node)
        elif primitive == ITEM and graph.primitive[made[source]] == TUPLE and item < len(graph.inputs[made[source]]):
            taken = graph.inputs[made[source]][item]
            made.append(made[taken] if taken >= 0 else node)
        else:
            made.append(made[source])
    return made


def _again(graph: LaunchGraph, owner: Mapping[int, tuple[int, _Owner]]) -> frozenset[int]:
    """Primitives that the model itself has run again: what they read waits for a gradient."""
    found: set[int] = set()
    for node in owner:
        for source in (one for one in graph.inputs[node] if one >= 0):
            waits_for = graph.inputs[source][1:] if graph.primitive[source] == DEPEND else ()
            behind = [one for other in waits_for if other >= 0 for one in (other, *graph.inputs[other])]
            if source in found or any(one >= 0 and _is_gradient(graph, one) for one in behind):
                found.add(node)
    return frozenset(found)


def _is_gradient(graph: LaunchGraph, node: int) -> bool:
    return bool(graph.forward_unique[node]) or graph.name[node].startswith(GRADIENTS)


def _with_facts(
    template: LayerTemplate, read: Mapping[_Owner, set[str]], saved: Mapping[_Owner, bool | None], doubtful: set[_Owner]
) -> LayerTemplate:
    order = {operator.path: number for number, operator in enumerate(template.operators)}
    operators = []
    for operator in template.operators:
        own = template, operator.path
        if own in read:
            consumers = tuple(sorted(read[own], key=order.__getitem__))
            found = replace(operator, executed=True, saved=saved[own], consumers=consumers)
        elif operator.kind == "primitive" and operator.type not in _MERGED and own not in doubtful:
            found = replace(operator, executed=False, saved=False)
        else:
            found = operator
        operators.append(found)
    return replace(template, operators=tuple(operators))


def _named(
    templates: Mapping[int, LayerTemplate], graph: LaunchGraph, called: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Where a cell has several primitives of one type: by name of a node, the attribute that it is a call of."""
    several = {
        template: {
            cell
            for (cell, _), count in Counter(
                (operator.path.rpartition(".")[0], plain(operator.type)) for operator in template.primitives
            ).items()
            if count > 1
        }
        for template in {*templates.values()}
    }
    for name in graph.name:
        place = _place(name) if name in called else None
        template = templates.get(place.index) if place is not None else None
        if place is not None and template is not None and place.cell in several[template]:
            yield name, called[name]
