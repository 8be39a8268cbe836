"""DOCUMENT -> DIALECT: which of mindformers' three spellings a YAML uses; two of them at once is a finding."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config import Dialect
from swapconf.errors import Finding, Severity
from swapconf.formats.nodes import Document, Entry
from swapconf.phrases import phrase

RULE = "two-dialects"
PYNATIVE_SECTIONS = ("swap", "recompute", "recompute_comm")
GRAPH_SECTIONS = ("swap_config", "recompute_config")
# sections that only the PyNative trainer knows (mindformers 2.0.0, pynative/config/config.py, TrainConfig)
_PYNATIVE_ONLY = ("training", "parallelism")
# canonical key -> the names that mindformers gives it in model_config; the converters of 1.9.0 refuse the second
MCORE_SWAP_KEYS = {"swap": ("swap", "cpu_offloading"), "layer_swap": ("layer_swap", "cpu_offloading_num_layers"),
                   "op_swap": ("op_swap",), "default_prefetch": ("default_prefetch",)}


def dialect_of(document: Document, *, legacy: bool) -> Dialect:
    """The dialect whose sections are read. ``legacy``: the YAML builds a legacy model, which reads no mcore keys.

    Where a YAML mixes PyNative with another dialect, the rest of the YAML decides.
    """
    root = document.root.entries
    graph = next(_graph_entries(document), None)
    if any(name in root for name in _PYNATIVE_ONLY) or (graph is None and any(n in root for n in PYNATIVE_SECTIONS)):
        return Dialect.PYNATIVE
    return Dialect.MCORE if not legacy and mcore_entries(document) else Dialect.LEGACY


def mcore_entries(document: Document) -> dict[str, Entry]:
    """The swap settings inside ``model.model_config``, by canonical key."""
    model = document.root.get("model")
    settings = model.get("model_config") if model else None
    return {key: settings.entries[name] for key, names in MCORE_SWAP_KEYS.items() for name in names
            if settings and name in settings.entries}


def clashes(document: Document) -> Iterator[Finding]:
    """One finding for each section of PyNative beside one of graph mode; it names both places."""
    graph = next(_graph_entries(document), None)
    if graph is None:
        return
    path, other = graph
    for name in PYNATIVE_SECTIONS:
        entry = document.root.entries.get(name)
        if entry is not None:
            yield Finding(
                origin=document.key_origin(entry, name), rule=RULE, severity=Severity.ERROR,
                message=phrase("`{section}` is the PyNative form, and line {line} has the graph-mode form `{path}`; "
                               "a run reads one of the two", section=name, line=other.line, path=path),
                hint=phrase("keep one; `swapconf migrate` rewrites one form as another"))


def _graph_entries(document: Document) -> Iterator[tuple[str, Entry]]:
    for name in GRAPH_SECTIONS:
        if name in document.root.entries:
            yield name, document.root.entries[name]
    for entry in mcore_entries(document).values():
        yield f"model.model_config.{entry.key}", entry
