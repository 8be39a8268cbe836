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
from swapconf.trace.launch_graph import ITEM, SAME_VALUE, TUPLE, LaunchGraph
from swapconf.upstream.primitives import VIEWS, plain
from swapconf.upstream.scopes import GRADIENTS, in_layer

_TRANSPARENT = SAME_VALUE | {ITEM, TUPLE}
_MERGED = VIEWS | {"Cast", "Transpose"}


def with_graph(layers: OwnLayers, graph: LaunchGraph, called: Mapping[str, str]) -> OwnLayers:
    """``called``: by the name of a node, the attribute of its cell that it is a call of."""
    owner = _owners(layers.templates, graph, called)
    read, saved = _read(graph, owner)
    facts = {template: _with_facts(template, read, saved) for template in {*layers.templates.values()}}
    return OwnLayers(
        templates={index: facts[template] for index, template in layers.templates.items()},
        called=dict(_doubtful(layers.templates, graph, called)),
    )


_Owner = tuple[LayerTemplate, str]


def _owners(
    templates: Mapping[int, LayerTemplate], graph: LaunchGraph, called: Mapping[str, str]
) -> dict[int, tuple[int, _Owner]]:
    """By node of the forward pass its layer, and the template and path of its primitive."""
    by_cell = {template: _by_cell(template) for template in {*templates.values()}}
    found: dict[int, tuple[int, _Owner]] = {}
    for node, (name, primitive) in enumerate(zip(graph.name, graph.primitive, strict=True)):
        place = in_layer(name) if not name.startswith(GRADIENTS) and not graph.forward_unique[node] else None
        template = templates.get(place.index) if place is not None and not place.is_extra else None
        if place is None or template is None:
            continue
        path = ".".join(filter(None, (place.cell, called.get(name, ""))))
        operator = template.by_path.get(path)
        if operator is None or operator.kind != "primitive":
            alike = by_cell[template].get((place.cell, plain(primitive)), [])
            operator = alike[0] if len(alike) == 1 else None
        if operator is not None:
            found[node] = place.index, (template, operator.path)
    return found


def _by_cell(template: LayerTemplate) -> Mapping[tuple[str, str], list[Operator]]:
    """The primitives of a template by cell and type."""
    found: defaultdict[tuple[str, str], list[Operator]] = defaultdict(list)
    for operator in template.primitives:
        found[operator.path.rpartition(".")[0], plain(operator.type)].append(operator)
    return found


def _read(graph: LaunchGraph, owner: Mapping[int, tuple[int, _Owner]]) -> tuple[dict[_Owner, set[str]], set[_Owner]]:
    """By primitive who reads its output in its layer; and those of which a gradient does."""
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for node, inputs in enumerate(graph.inputs):
        # a Depend waits for what else it is given
        for source in inputs[:1] if graph.primitive[node] in SAME_VALUE else inputs:
            readers[source].append(node)
    read: defaultdict[_Owner, set[str]] = defaultdict(set)
    saved: set[_Owner] = set()
    for node, (layer, own) in owner.items():
        read[own].update(())
        for reader in _behind(node, readers, graph):
            known = owner.get(reader)
            if known is not None and known[0] == layer:
                read[own].add(known[1][1])
            elif graph.forward_unique[reader] or graph.name[reader].startswith(GRADIENTS):
                saved.add(own)
    return read, saved


def _behind(node: int, readers: Mapping[int, list[int]], graph: LaunchGraph) -> Iterator[int]:
    waiting, seen = [node], {node}
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if reader in seen:
                continue
            seen.add(reader)
            if graph.primitive[reader] in _TRANSPARENT:
                waiting.append(reader)
            else:
                yield reader


def _with_facts(template: LayerTemplate, read: Mapping[_Owner, set[str]], saved: set[_Owner]) -> LayerTemplate:
    order = {operator.path: number for number, operator in enumerate(template.operators)}
    operators = []
    for operator in template.operators:
        own = template, operator.path
        if own in read:
            consumers = tuple(sorted(read[own], key=order.__getitem__))
            found = replace(operator, executed=True, saved=own in saved, consumers=consumers)
        elif operator.kind == "primitive" and operator.type not in _MERGED:
            found = replace(operator, executed=False, saved=False)
        else:
            found = operator
        operators.append(found)
    return replace(template, operators=tuple(operators))


def _doubtful(
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
        place = in_layer(name) if name in called and not name.startswith(GRADIENTS) else None
        template = templates.get(place.index) if place is not None else None
        if place is not None and template is not None and place.cell in several[template]:
            yield name, called[name]
