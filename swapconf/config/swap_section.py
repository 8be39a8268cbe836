"""SECTION -> SWAP: `swap_config`, checked against its schema before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swapconf.config.config import (
    DefaultSwap,
    EveryLayer,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    Swap,
    SwapOff,
)
from swapconf.config.nodes import Node
from swapconf.config.structure import Place, Section
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

DEFAULT_PREFETCH = 1  # mindformers 1.9.0, TransformerSwapConfig


def read(section: Section) -> Swap:
    """What the section asks for; what is wrong in it asks for nothing."""
    node = section.node
    if not section.is_on("swap"):
        return SwapOff()
    lists = [_value(node, key) for key in ("layer_swap", "op_swap")]
    if lists == [None, None]:
        given: Any = node.get("default_prefetch")
        known = given is not None and section.sound("default_prefetch")
        origin = section.document.key_origin(node.entries["swap"], section.name(("swap",)))
        return DefaultSwap(prefetch=given.scalar if known else DEFAULT_PREFETCH, origin=origin)
    entries = [
        (place, made)
        for key in ("layer_swap", "op_swap")
        for place in _places(node, key)
        for made in _made(section, key, place)
    ]
    usable = [made for place, made in entries if section.sound(*place)]
    return ListedSwap(
        layer_swap=tuple(made for made in usable if isinstance(made, LayerSwap)),
        op_swap=tuple(made for made in usable if isinstance(made, OpSwap)),
        given_entries=sum(len(_places(node, key)) for key in ("layer_swap", "op_swap")),
        unusable=tuple(made for place, made in entries if not section.sound(*place)),
    )


def _made(section: Section, key: str, place: Place) -> Iterator[LayerSwap | OpSwap]:
    """The entry at a place, one for each of its names; what is wrong or missing in it is taken as its default."""
    if section.at(place).kind != "mapping":
        return
    given = section.at(place).entries
    parts: dict[str, Any] = {
        "layers": _layers(given["layers"].value) if _given(section, place, "layers") else EveryLayer(),
        "prefetch": given["backward_prefetch"].value.scalar
        if _given(section, place, "backward_prefetch")
        else DEFAULT_PREFETCH,
        "layers_origin": section.origin((*place, "layers") if "layers" in given else place),
        "prefetch_origin": section.origin((*place, "backward_prefetch") if "backward_prefetch" in given else place),
    }
    if key == "layer_swap":
        yield LayerSwap(origin=section.origin(place), **parts)
    elif _given(section, place, "op_name"):
        for tail, pattern in _names(given["op_name"].value):
            yield OpSwap(pattern=pattern, origin=section.origin((*place, "op_name", *tail)), **parts)


def _given(section: Section, place: Place, key: str) -> bool:
    """Whether an entry has a usable value of its own for a key."""
    return key in section.at(place).entries and section.whole(*place, key)


def _value(section: Node, key: str) -> Node | None:
    node = section.get(key)
    return None if node is None or (node.kind == "scalar" and node.scalar is None) else node


def _places(node: Node, key: str) -> list[Place]:
    """Where the entries of a list are; one bare entry counts as a list of one."""
    value = _value(node, key)
    if value is None:
        return []
    return [(key, index) for index in range(len(value.items))] if value.kind == "list" else [(key,)]


def _names(node: Node) -> Iterator[tuple[Place, str]]:
    if node.kind == "list":
        yield from (((index,), str(item.scalar)) for index, item in enumerate(node.items))
    else:
        yield (), str(node.scalar)


def _layers(node: Node) -> LayerSelection:
    if node.kind == "scalar":
        return EveryLayer() if node.scalar is True else LayerIndices(())
    flat = [leaf for item in node.items for leaf in (item.items if item.kind == "list" else (item,))]
    return LayerIndices(tuple(leaf.scalar for leaf in flat if isinstance(leaf.scalar, int)))


def refused_by_mindformers(section: Section) -> Iterator[Finding]:
    """Documented forms of `layers` on which plain mindformers 1.9.0 stops with a misleading error (measured)."""
    places = [place for key in ("layer_swap", "op_swap") for place in _places(section.node, key)]
    for place in places if section.is_on("swap") else ():
        layers = section.at(place).get("layers")
        nested = layers is not None and any(item.kind == "list" for item in layers.items)
        if layers is not None and section.sound(*place) and (layers.is_tuple or nested):
            yield Finding(
                origin=section.origin((*place, "layers")),
                rule="plain-mindformers-differs",
                severity=Severity.WARNING,
                message=phrase("plain mindformers refuses nested lists here, though documented")
                if nested
                else phrase("plain mindformers refuses a tuple here, though documented"),
                hint=phrase("run it through swapconf, or write one flat list"),
            )
