"""SECTION -> RECOMPUTE: `recompute_config`, checked against its schema before."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import (
    EveryLayer,
    FullRecompute,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    RecomputeConfig,
    SelectRecompute,
)
from swapconf.config.nodes import Entry, Node
from swapconf.config.structure import Place, Section
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

# what `select_recompute: True` stands for: mindformers 1.9.0, LayerSetting
_BUILTIN = {
    ("select_recompute", True): (r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"),
    ("select_recompute", False): (
        r"mlp\.shared_experts\.mul",
        r"mlp\.shared_experts\.activation_func\.silu",
        r"mlp\.mul",
        r"mlp\.activation_func\.silu",
    ),
    ("select_comm_recompute", True): (r".*\.norm",),
    ("select_comm_recompute", False): (r".*\.norm",),
}


def read(section: Section, *, swap_on: bool, legacy: bool) -> tuple[RecomputeConfig, list[Finding]]:
    """What the section asks for, and what does not fit the meaning that its lists have."""
    reader = _Reader(section, swap_on, legacy)
    full = None
    if section.sound("recompute"):
        layers = reader.selection(("recompute",))
        if layers is not None:
            full = FullRecompute(layers=layers, origin=section.origin(("recompute",)))
    lists = {
        key: reader.named(key)
        for key in (
            "select_recompute",
            "select_comm_recompute",
            "select_recompute_exclude",
            "select_comm_recompute_exclude",
        )
    }

    def switch(key: str, default: bool) -> bool:
        node = section.node.get(key)
        return node.scalar if node is not None and isinstance(node.scalar, bool) else default

    return RecomputeConfig(
        full=full,
        select=lists["select_recompute"],
        select_comm=lists["select_comm_recompute"],
        select_exclude=lists["select_recompute_exclude"],
        select_comm_exclude=lists["select_comm_recompute_exclude"],
        mp_comm_recompute=switch("mp_comm_recompute", True),
        recompute_slice_activation=switch("recompute_slice_activation", False),
        parallel_optimizer_comm_recompute=switch("parallel_optimizer_comm_recompute", False),
        unusable=tuple(reader.nested),
    ), [*reader.findings, *(_refused_by_mindformers(section) if swap_on else ())]


class _Reader:
    """Lists are layer indices when swap is on, counts per stage when it is off (documented, rule R3)."""

    def __init__(self, section: Section, swap_on: bool, legacy: bool) -> None:
        self.section = section
        self.swap_on = swap_on
        self.legacy = legacy
        self.findings: list[Finding] = []
        self.nested: list[FullRecompute] = []  # beside swap; what they mean as counts is told where stages are known

    def named(self, key: str) -> tuple[SelectRecompute, ...]:
        node = self.section.node.get(key)
        if node is None or not self.section.sound(key):
            return ()
        if node.kind == "mapping":
            chosen = [
                (entry.key, self.selection((key, entry.key)), _entry_origin(self.section, key, entry))
                for entry in node.entries.values()
            ]
            return tuple(
                SelectRecompute(pattern=pattern, layers=layers, origin=origin)
                for pattern, layers, origin in chosen
                if layers is not None
            )
        names = [item.scalar for item in node.items if isinstance(item.scalar, str)]
        if names:
            return self._bare_names(key, node)
        layers = self.selection((key,))
        builtin = _BUILTIN.get((key, self.legacy), ())
        return tuple(
            SelectRecompute(pattern=pattern, layers=layers, origin=self.section.origin((key,)), builtin=True)
            for pattern in builtin
            if layers is not None
        )

    def _bare_names(self, key: str, node: Node) -> tuple[SelectRecompute, ...]:
        odd = [index for index, item in enumerate(node.items) if not isinstance(item.scalar, str)]
        for index in odd:
            self._misfit(
                (key, index),
                phrase("operator paths and other values stand in one list"),
                phrase("list operator paths only, or map each path to its layers"),
            )
        if self.swap_on:
            example = next(str(item.scalar) for item in node.items if isinstance(item.scalar, str))
            self._misfit(
                (key,),
                phrase("with swap on, mindformers takes no bare list of operator paths"),
                phrase("map each path to True or to layer indices: {{'{path}': True}}", path=example),
            )
            return ()
        return tuple(
            SelectRecompute(pattern=str(item.scalar), layers=EveryLayer(), origin=self.section.origin((key, index)))
            for index, item in enumerate(node.items)
            if index not in odd
        )

    def selection(self, place: Place) -> LayerSelection | None:
        """What the value at this place selects; None: nothing at all."""
        key = place[0]
        if key not in self.section.node.entries:
            return None
        node = self.section.at(place)
        if node.kind == "scalar":
            return EveryLayer() if node.scalar is True else None
        if not self.swap_on:
            return self._counts(node)
        nested = next((index for index, item in enumerate(node.items) if item.kind == "list"), None)
        if nested is None:
            return self._indices(place, node)
        self.nested.append(FullRecompute(layers=self._counts(node), origin=self.section.origin((*place, nested))))
        return None

    def _indices(self, place: Place, node: Node) -> LayerIndices:
        indices = []
        for index, item in enumerate(node.items):
            if isinstance(item.scalar, bool):
                self._misfit(
                    (*place, index),
                    phrase("with swap on, this list names layers; {value} is not one", value=item.scalar),
                    phrase("write layer indices, or True instead of the list for every layer"),
                )
            elif isinstance(item.scalar, int):
                indices.append(item.scalar)
        return LayerIndices(tuple(indices))

    @staticmethod
    def _counts(node: Node) -> LayerCounts:
        nested = any(item.kind == "list" for item in node.items)
        rows = [item.items if item.kind == "list" else (item,) for item in node.items] if nested else [node.items]
        return LayerCounts(counts=tuple(tuple(map(_count, row)) for row in rows), per_interleave=nested)

    def _misfit(self, place: Place, message: str, hint: str) -> None:
        self.findings.append(
            Finding(
                origin=self.section.origin(place),
                rule="recompute-form",
                severity=Severity.ERROR,
                message=message,
                hint=hint,
            )
        )


def _entry_origin(section: Section, key: str, entry: Entry) -> Origin:
    return section.document.key_origin(entry, section.name((key, entry.key)))


def _count(node: Node) -> int | None:
    if isinstance(node.scalar, bool):
        return None if node.scalar else 0
    return node.scalar if isinstance(node.scalar, int) else 0


def _refused_by_mindformers(section: Section) -> Iterator[Finding]:
    """Forms on which plain mindformers 1.9.0 stops with a misleading error while swap is on (measured)."""
    full = section.node.get("recompute")
    if full is not None and full.is_tuple:
        yield _differs(
            section.origin(("recompute",)),
            phrase("plain mindformers refuses a tuple here and names another key"),
            phrase("run it through swapconf, or give a list"),
        )
    for key in ("select_recompute", "select_comm_recompute"):
        node = section.node.get(key)
        for named in node.entries.values() if node is not None else ():
            if named.value.scalar is False:
                yield _differs(
                    section.origin((key, named.key)),
                    phrase("False selects nothing, and plain mindformers stops here while swap is on"),
                    phrase("remove the line"),
                )


def _differs(origin: Origin, message: str, hint: str) -> Finding:
    return Finding(
        origin=origin, rule="plain-mindformers-differs", severity=Severity.WARNING, message=message, hint=hint
    )
