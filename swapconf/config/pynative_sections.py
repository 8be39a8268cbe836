"""SECTIONS -> SWAP and RECOMPUTE: PyNative's `swap`, `recompute` and `recompute_comm`, checked against their schemas.

Source: mindformers 2.0.0 and 2.1.0, pynative/config/config.py and pynative/distributed/activation_checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swapconf.config import layer_ranges
from swapconf.config.config import (
    EveryLayer,
    FullRecompute,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.config.nodes import Node
from swapconf.config.structure import Place, Section
from swapconf.upstream.versions import EXCLUDE_BY_PATH, PYNATIVE, reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

DEFAULT_PREFETCH = 1  # layers


@dataclass(frozen=True, slots=True)
class Sections:
    """The three sections as they stand in the file; ``num_layers`` an index can name, None when not known;
    ``mindformers``: the version that reads them."""

    swap: Section
    recompute: Section
    comm: Section
    num_layers: int | None
    mindformers: str


def read(sections: Sections) -> tuple[Swap, RecomputeConfig, list[Finding]]:
    """What the sections ask for, and the ranges that name no layers or stand in the wrong order."""
    findings: list[Finding] = []
    swap = _swap(sections, findings)
    return swap, _recompute(sections, findings), findings


def _swap(sections: Sections, findings: list[Finding]) -> Swap:
    section = sections.swap
    if not section.is_on("enable"):
        return SwapOff()
    given = section.node.get("default_prefetch")
    known = given is not None and section.sound("default_prefetch")
    prefetch = given.scalar if known and given is not None and isinstance(given.scalar, int) else DEFAULT_PREFETCH
    prefetch_origin = section.origin(("default_prefetch",) if given is not None else ("enable",))
    made: list[LayerSwap | OpSwap] = []
    unusable: list[LayerSwap | OpSwap] = []
    count = 0
    for key in ("layer_swap", "op_swap"):
        node = section.node.get(key)
        for index, _ in enumerate(node.items if node is not None else ()):
            count += 1
            place: Place = (key, index)
            if not section.sound(*place):
                continue
            layers = _layers(section, (*place, "layers"), sections.num_layers, findings)
            origin = section.origin(place)
            layers_origin = section.origin((*place, "layers"))
            if key == "op_swap":
                made.append(
                    OpSwap(
                        pattern=str(section.at((*place, "op_name")).scalar),
                        layers=layers,
                        prefetch=prefetch,
                        origin=section.origin((*place, "op_name")),
                        layers_origin=layers_origin,
                        prefetch_origin=prefetch_origin,
                    )
                )
            else:
                (unusable if index else made).append(
                    LayerSwap(
                        layers=layers,
                        prefetch=prefetch,
                        origin=origin,
                        layers_origin=layers_origin,
                        prefetch_origin=prefetch_origin,
                    )
                )
    return ListedSwap(
        layer_swap=tuple(entry for entry in made if isinstance(entry, LayerSwap)),
        op_swap=tuple(entry for entry in made if isinstance(entry, OpSwap)),
        given_entries=count,
        unusable=tuple(unusable),
    )


def _recompute(sections: Sections, findings: list[Finding]) -> RecomputeConfig:
    section = sections.recompute
    node = section.node.get("mode")
    mode = node.scalar if node is not None and section.sound("mode") else "None"
    full, kept = None, tuple[str, ...]()
    excluded = tuple[SelectRecompute, ...]()
    if mode != "None" and _filled(section, "full_recompute_layer"):
        full = FullRecompute(
            layers=_layers(section, ("full_recompute_layer",), sections.num_layers, findings),
            origin=section.origin(("full_recompute_layer",)),
        )
    if mode != "None" and (given := section.node.get("exclude_op")) is not None and _is_form_of(given, sections):
        if section.sound("exclude_op"):
            kept = tuple(str(item.scalar) for item in given.items)
        excluded = tuple(_modules(section, sections.num_layers, findings, "exclude_op"))
    return RecomputeConfig(
        full=full,
        select=tuple(_modules(section, sections.num_layers, findings)) if mode == "select" else (),
        select_comm=tuple(_modules(sections.comm, sections.num_layers, findings))
        if sections.comm.is_on("enable")
        else (),
        select_exclude=excluded,
        kept_ops=kept,
    )


def _is_form_of(exclude_op: Node, sections: Sections) -> bool:
    """Whether the version that reads it takes this form; one that is not a release of PyNative may be either."""
    if not reached(sections.mindformers, PYNATIVE):
        return True
    return (exclude_op.kind == "mapping") == reached(sections.mindformers, EXCLUDE_BY_PATH)


def _filled(section: Section, key: str) -> bool:
    node = section.node.get(key)
    return node is not None and bool(node.items) and section.sound(key)


def _modules(
    section: Section, num_layers: int | None, findings: list[Finding], key: str = "select_module"
) -> Iterator[SelectRecompute]:
    node = section.node.get(key)
    for entry in node.entries.values() if node is not None else ():
        place: Place = (key, entry.key)
        if section.sound(*place) and entry.key.strip():
            yield SelectRecompute(
                pattern=entry.key,
                layers=_layers(section, place, num_layers, findings),
                origin=section.document.key_origin(entry, section.name(place)),
            )


def _layers(section: Section, place: Place, num_layers: int | None, findings: list[Finding]) -> LayerSelection:
    """The layers of a list; mindformers stops at one that is not ascending and apart, which becomes a finding."""
    chosen: set[int] = set()
    last = -1
    for index, item in enumerate(section.at(place).items):
        try:
            layers = layer_ranges.parse(str(item.scalar))
        except layer_ranges.BadRange as error:
            findings.append(_bad(section, (*place, index), str(error), phrase("correct the range")))
            continue
        if layers.start <= last:
            findings.append(
                _bad(
                    section,
                    (*place, index),
                    phrase("layer {layer} comes after layer {last}", layer=layers.start, last=last),
                    phrase("list ranges in ascending order, apart from each other"),
                )
            )
        last = max(last, layers.stop - 1)
        chosen.update(layers)
    if num_layers and chosen == set(range(num_layers)):
        return EveryLayer()
    return LayerIndices(tuple(sorted(chosen)))


def _bad(section: Section, place: Place, message: str, hint: str) -> Finding:
    return Finding(origin=section.origin(place), rule="bad-value", severity=Severity.ERROR, message=message, hint=hint)
