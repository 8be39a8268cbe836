"""DOCUMENT -> CONFIG: the swap and recompute sections of a training YAML, in both of mindformers' spellings.

The legacy models read ``swap_config`` and ``recompute_config``; the mcore models (``use_legacy: False``) also take the
same keys inside ``model.model_config``, where ``cpu_offloading`` is ``swap`` and ``cpu_offloading_num_layers`` is
``layer_swap`` (mindformers 1.9.0, parallel_core/transformer_config_utils.py).
A value that is wrong becomes a finding and is left out of the config; everything else is still read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from swapconf.config import (
    Config,
    DefaultSwap,
    EveryLayer,
    FullRecompute,
    LayerCounts,
    LayerIndices,
    LayerSelection,
    LayerSwap,
    ListedSwap,
    OpSwap,
    Recompute,
    SelectRecompute,
    Swap,
    SwapOff,
)
from swapconf.errors import Finding, Origin, Severity, in_order
from swapconf.formats import surroundings
from swapconf.formats.structure import Section, check_section
from swapconf.formats.yaml_document import Document, Entry, Node, parse, read_text

DEFAULT_PREFETCH = 1  # mindformers 1.9.0, TransformerSwapConfig

# what `select_recompute: True` stands for: mindformers 1.9.0, LayerSetting
_BUILTIN = {
    ("select_recompute", True): (r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"),
    ("select_recompute", False): (r"mlp\.shared_experts\.mul", r"mlp\.shared_experts\.activation_func\.silu",
                                  r"mlp\.mul", r"mlp\.activation_func\.silu"),
    ("select_comm_recompute", True): (r".*\.norm",),
    ("select_comm_recompute", False): (r".*\.norm",),
}

_SWAP_KEYS = {"swap": ("swap", "cpu_offloading"), "layer_swap": ("layer_swap", "cpu_offloading_num_layers"),
              "op_swap": ("op_swap",), "default_prefetch": ("default_prefetch",)}
_RECOMPUTE_KEYS: dict[str, tuple[str, ...]] = {name: (name,) for name in (
    "recompute", "select_recompute", "select_comm_recompute", "select_recompute_exclude",
    "select_comm_recompute_exclude", "mp_comm_recompute", "recompute_slice_activation",
    "parallel_optimizer_comm_recompute")}


def read(path: str | Path) -> tuple[Config, tuple[Finding, ...]]:
    """The config in a YAML file and what is wrong with it. Raises SwapconfError when nothing can be read."""
    return from_document(parse(read_text(path), str(path)))


def from_document(document: Document) -> tuple[Config, tuple[Finding, ...]]:
    """The config in a document and every finding of its reading, in order."""
    around = surroundings.read(document)
    swap_section, swap_twice = _section(document, "swap_config", _SWAP_KEYS, around.config.model.legacy)
    recompute_section, recompute_twice = _section(document, "recompute_config", _RECOMPUTE_KEYS,
                                                  around.config.model.legacy)
    swap = _swap(swap_section)
    swap_on = not isinstance(swap, SwapOff)
    recompute, misfits = _recompute(recompute_section, swap_on, around.config.model.legacy)
    config = replace(around.config, swap=swap, recompute=recompute,
                     origins={**around.config.origins, **_origins(swap_section), **_origins(recompute_section)})
    findings = [*document.findings, *around.findings, *swap_twice, *recompute_twice,
                *swap_section.findings, *recompute_section.findings, *misfits,
                *_refused_by_plain(swap_section, swap_on), *_refused_by_plain(recompute_section, swap_on)]
    return config, in_order(findings)


def _section(document: Document, name: str, keys: dict[str, tuple[str, ...]],
             legacy: bool) -> tuple[Section, list[Finding]]:
    """The checked section, gathered from the place that this kind of model reads."""
    own = document.root.entries.get(name)
    model = document.root.get("model")
    settings = model.get("model_config") if model else None
    inner = {key: settings.entries[written] for key, spellings in keys.items() for written in spellings
             if settings and written in settings.entries}
    findings = []
    if inner and own and own.value.entries and not legacy:
        key, entry = next(iter(inner.items()))
        findings.append(Finding(
            origin=document.key_origin(entry, f"model.model_config.{entry.key}"), rule="section-given-twice",
            severity=Severity.ERROR, message=f"`{key}` is set here and there is a `{name}` at line {own.line} as well",
            hint=f"keep one of the two; `{name}` works for every model under swapconf"))
    if inner and legacy:
        for entry in inner.values():
            findings.append(Finding(
                origin=document.key_origin(entry, f"model.model_config.{entry.key}"), rule="section-misplaced",
                severity=Severity.WARNING, message=f"a legacy model does not read `{entry.key}` here",
                hint=f"move it to `{name}:` at the top level"))
    if inner and not legacy and not (own and own.value.entries):
        assert settings
        node = Node("mapping", settings.line, settings.column, entries=inner)
        written = {key: entry.key for key, entry in inner.items()}
        blank = Section(document, node, "model.model_config", written=written)
    else:
        blank = Section(document, own.value if own else Node("mapping", 0, 0), name)
    return check_section(blank, name), findings


def _origins(section: Section) -> dict[str, Origin]:
    """Places by canonical name, whatever the spelling: `swap_config.swap` and so on."""
    home = "swap_config" if "swap" in section.node.entries else "recompute_config"
    known = {key: section.document.key_origin(entry, section.name((key,)))
             for key, entry in section.node.entries.items()}
    return {f"{_home(key) or home}.{key}": origin for key, origin in known.items()}


def _home(key: str) -> str:
    return "swap_config" if key in _SWAP_KEYS else "recompute_config" if key in _RECOMPUTE_KEYS else ""


# --- swap ---------------------------------------------------------------------------------------------------------


def _swap(section: Section) -> Swap:
    node = section.node
    if not _truthy(node.get("swap")):
        return SwapOff()
    lists = [_value(node, key) for key in ("layer_swap", "op_swap")]
    if lists == [None, None]:
        prefetch = node.get("default_prefetch")
        sound = prefetch and isinstance(prefetch.scalar, int) and section.sound("default_prefetch")
        origin = section.document.key_origin(node.entries["swap"], section.name(("swap",)))
        return DefaultSwap(prefetch=int(str(prefetch.scalar)) if prefetch and sound else DEFAULT_PREFETCH,
                           origin=origin)
    return ListedSwap(
        layer_swap=tuple(LayerSwap(layers=_layers(entry.get("layers")), prefetch=_prefetch(entry),
                                   origin=section.origin(place),
                                   layers_origin=section.origin((*place, "layers")),
                                   prefetch_origin=section.origin((*place, "backward_prefetch")))
                         for place, entry in _entries(section, "layer_swap")),
        op_swap=tuple(OpSwap(pattern=pattern, layers=_layers(entry.get("layers")), prefetch=_prefetch(entry),
                             origin=section.origin((*place, "op_name", *tail)),
                             layers_origin=section.origin((*place, "layers")),
                             prefetch_origin=section.origin((*place, "backward_prefetch")))
                      for place, entry in _entries(section, "op_swap")
                      for tail, pattern in _names(entry.get("op_name"))),
        given_entries=sum(len(value.items) if value.kind == "list" else 1 for value in lists if value is not None))


def _truthy(node: Node | None) -> bool:
    """Also what was surely meant as True, so that the rest of the section is checked in one go."""
    return node is not None and (node.scalar is True or node.scalar == 1 or str(node.scalar).lower() == "true")


def _value(section: Node, key: str) -> Node | None:
    node = section.get(key)
    return None if node is None or (node.kind == "scalar" and node.scalar is None) else node


def _entries(section: Section, key: str) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    """The sound entries of a list; one bare entry counts as a list of one."""
    node = _value(section.node, key)
    if node is None:
        return
    places = [(key, index) for index in range(len(node.items))] if node.kind == "list" else [(key,)]
    for place in places:
        if section.sound(*place) and section.at(place).kind == "mapping":
            yield place, section.at(place)


def _names(node: Node | None) -> Iterator[tuple[tuple[int, ...], str]]:
    if node is not None and node.kind == "list":
        yield from (((index,), str(item.scalar)) for index, item in enumerate(node.items))
    elif node is not None:
        yield (), str(node.scalar)


def _prefetch(entry: Node) -> int:
    node = entry.get("backward_prefetch")
    assert node is not None
    assert isinstance(node.scalar, int)
    return node.scalar


def _layers(node: Node | None) -> LayerSelection:
    if node is None or node.kind == "scalar":
        return EveryLayer() if node is not None and node.scalar is True else LayerIndices(())
    flat = [leaf for item in node.items for leaf in (item.items if item.kind == "list" else (item,))]
    return LayerIndices(tuple(leaf.scalar for leaf in flat if isinstance(leaf.scalar, int)))


# --- recompute ----------------------------------------------------------------------------------------------------


def _refused_by_plain(section: Section, swap_on: bool) -> Iterator[Finding]:
    """Documented forms on which plain mindformers 1.9.0 stops with a misleading error (measured)."""
    places: list[tuple[tuple[str | int, ...], str, str]] = []
    for key in ("layer_swap", "op_swap") if swap_on else ():
        for place, entry in _entries(section, key):
            layers = entry.get("layers")
            if layers is not None and any(item.kind == "list" for item in layers.items):
                places.append(((*place, "layers"),
                               "plain mindformers refuses nested lists, though they are documented",
                               "run it through swapconf, or write one flat list"))
    for key in ("select_recompute", "select_comm_recompute") if swap_on else ():
        node = section.node.get(key)
        for named in node.entries.values() if node is not None else ():
            if named.value.scalar is False:
                places.append(((key, named.key),
                               "False selects nothing, and plain mindformers stops here while swap is on",
                               "remove the line"))
    for place, message, hint in places:
        yield Finding(origin=section.origin(place), rule="plain-mindformers-differs", severity=Severity.WARNING,
                      message=message, hint=hint)


def _recompute(section: Section, swap_on: bool, legacy: bool) -> tuple[Recompute, list[Finding]]:
    reader = _RecomputeReader(section, swap_on, legacy)
    full = None
    if section.sound("recompute"):
        layers = reader.selection(("recompute",))
        if layers is not None:
            full = FullRecompute(layers=layers, origin=section.origin(("recompute",)))
    lists = {key: reader.named(key) for key in ("select_recompute", "select_comm_recompute",
                                                "select_recompute_exclude", "select_comm_recompute_exclude")}

    def switch(key: str, default: bool) -> bool:
        node = section.node.get(key)
        return node.scalar if node is not None and isinstance(node.scalar, bool) else default

    return Recompute(
        full=full,
        select=lists["select_recompute"],
        select_comm=lists["select_comm_recompute"],
        select_exclude=lists["select_recompute_exclude"],
        select_comm_exclude=lists["select_comm_recompute_exclude"],
        mp_comm_recompute=switch("mp_comm_recompute", True),
        recompute_slice_activation=switch("recompute_slice_activation", False),
        parallel_optimizer_comm_recompute=switch("parallel_optimizer_comm_recompute", False),
    ), reader.findings


class _RecomputeReader:
    """Lists are layer indices when swap is on, counts per stage when it is off (documented, rule R3)."""

    def __init__(self, section: Section, swap_on: bool, legacy: bool) -> None:
        self.section = section
        self.swap_on = swap_on
        self.legacy = legacy
        self.findings: list[Finding] = []

    def named(self, key: str) -> tuple[SelectRecompute, ...]:
        node = self.section.node.get(key)
        if node is None or not self.section.sound(key):
            return ()
        if node.kind == "mapping":
            chosen = [(entry.key, self.selection((key, entry.key)), _entry_origin(self.section, key, entry))
                      for entry in node.entries.values()]
            return tuple(SelectRecompute(pattern=pattern, layers=layers, origin=origin)
                         for pattern, layers, origin in chosen if layers is not None)
        names = [item.scalar for item in node.items if isinstance(item.scalar, str)]
        if names:
            return self._bare_names(key, node)
        layers = self.selection((key,))
        builtin = _BUILTIN.get((key, self.legacy), ())
        return tuple(SelectRecompute(pattern=pattern, layers=layers, origin=self.section.origin((key,)), builtin=True)
                     for pattern in builtin if layers is not None)

    def _bare_names(self, key: str, node: Node) -> tuple[SelectRecompute, ...]:
        odd = [index for index, item in enumerate(node.items) if not isinstance(item.scalar, str)]
        for index in odd:
            self._misfit((key, index), "operator paths and other values stand in one list",
                         "list operator paths only, or map each path to its layers")
        if self.swap_on:
            example = next(str(item.scalar) for item in node.items if isinstance(item.scalar, str))
            self._misfit((key,), "with swap on, mindformers takes no bare list of operator paths",
                         f"map each path to True or to layer indices: {{'{example}': True}}")
            return ()
        return tuple(SelectRecompute(pattern=str(item.scalar), layers=EveryLayer(),
                                     origin=self.section.origin((key, index)))
                     for index, item in enumerate(node.items) if index not in odd)

    def selection(self, place: tuple[str | int, ...]) -> LayerSelection | None:
        """What the value at this place selects; None: nothing at all."""
        key = place[0]
        if key not in self.section.node.entries:
            return None
        node = self.section.at(place)
        if node.kind == "scalar":
            return EveryLayer() if node.scalar is True else None
        return self._indices(place, node) if self.swap_on else self._counts(node)

    def _indices(self, place: tuple[str | int, ...], node: Node) -> LayerIndices:
        indices = []
        for index, item in enumerate(node.items):
            if item.kind == "list":
                self._misfit((*place, index), "with swap on, this list names layers, so it cannot be nested",
                             "list the layer indices flat: [0, 1]")
            elif isinstance(item.scalar, bool):
                self._misfit((*place, index), f"with swap on, this list names layers; {item.scalar} is not one",
                             "write layer indices, or True instead of the list for every layer")
            elif isinstance(item.scalar, int):
                indices.append(item.scalar)
        return LayerIndices(tuple(indices))

    @staticmethod
    def _counts(node: Node) -> LayerCounts:
        nested = any(item.kind == "list" for item in node.items)
        rows = [item.items if item.kind == "list" else (item,) for item in node.items] if nested else [node.items]
        return LayerCounts(counts=tuple(tuple(map(_count, row)) for row in rows), per_interleave=nested)

    def _misfit(self, place: tuple[str | int, ...], message: str, hint: str) -> None:
        self.findings.append(Finding(origin=self.section.origin(place), rule="recompute-form",
                                     severity=Severity.ERROR, message=message, hint=hint))


def _entry_origin(section: Section, key: str, entry: Entry) -> Origin:
    return section.document.key_origin(entry, section.name((key, entry.key)))


def _count(node: Node) -> int | None:
    if isinstance(node.scalar, bool):
        return None if node.scalar else 0
    return node.scalar if isinstance(node.scalar, int) else 0
