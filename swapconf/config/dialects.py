"""DOCUMENT -> DIALECT: which of mindformers' three spellings a YAML uses; two of them at once is a finding."""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.config import Dialect
from swapconf.config.nodes import Document, Entry
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "two-dialects"
PYNATIVE_SECTIONS = ("swap", "recompute", "recompute_comm")
GRAPH_SECTIONS = ("swap_config", "recompute_config")
# sections that only the PyNative trainer knows (mindformers 2.0.0, pynative/config/config.py, TrainConfig)
PYNATIVE_ONLY = ("training", "parallelism")
# canonical key -> the names that mindformers gives it in model_config; the converters of 1.9.0 refuse the second
MCORE_SWAP_KEYS = {
    "swap": ("swap", "cpu_offloading"),
    "layer_swap": ("layer_swap", "cpu_offloading_num_layers"),
    "op_swap": ("op_swap",),
    "default_prefetch": ("default_prefetch",),
}
RECOMPUTES = ("recompute", "select_recompute", "select_comm_recompute")  # keys that ask for a recompute
RECOMPUTE_KEYS = (
    *RECOMPUTES,
    "select_recompute_exclude",
    "select_comm_recompute_exclude",
    "mp_comm_recompute",
    "recompute_slice_activation",
    "parallel_optimizer_comm_recompute",
)


def dialect_of(document: Document, *, legacy: bool) -> Dialect:
    """The dialect whose sections are read. ``legacy``: the YAML builds a legacy model, which reads no mcore keys.

    Where a YAML mixes PyNative with another dialect, the rest of the YAML decides.
    """
    root = document.root.entries
    graph = next(_graph_entries(document), None)
    native = any(name in root and is_pynative_section(root[name]) for name in PYNATIVE_SECTIONS)
    if any(name in root for name in PYNATIVE_ONLY) or (graph is None and native):
        return Dialect.PYNATIVE
    return Dialect.MCORE if not legacy and mcore_entries(document) else Dialect.LEGACY


def mcore_entries(document: Document) -> dict[str, Entry]:
    """The swap settings inside ``model.model_config``, by canonical key."""
    model = document.root.get("model")
    settings = model.get("model_config") if model else None
    return {
        key: settings.entries[name]
        for key, names in MCORE_SWAP_KEYS.items()
        for name in names
        if settings and name in settings.entries
    }


def is_pynative_section(entry: Entry) -> bool:
    """Whether an entry of the top level can be a section: a key such as `swap: True` that lost its place is none."""
    return entry.value.kind == "mapping" or (entry.value.kind == "scalar" and entry.value.scalar is None)


def clashes(document: Document, dialect: Dialect) -> Iterator[Finding]:
    """One finding for each section that is not of the YAML's own form: of graph mode in a PyNative YAML (mindformers
    2.0.0, pynative/config/config.py, refuses it), else of PyNative beside one of graph mode, naming both places."""
    graph = next(_graph_entries(document), None)
    if graph is None:
        return
    path, other = graph
    native = [
        entry
        for name, entry in document.root.entries.items()
        if name in PYNATIVE_SECTIONS and is_pynative_section(entry)
    ]
    sign = next((name for name in PYNATIVE_ONLY if name in document.root.entries), None)
    if dialect is Dialect.PYNATIVE and sign is not None:
        yield from _graph_sections_in_pynative(document, sign)
        return
    for entry in native:
        yield Finding(
            origin=document.key_origin(entry, entry.key),
            rule=RULE,
            severity=Severity.ERROR,
            message=phrase(
                "`{section}` is the PyNative form, and line {line} has the graph-mode form `{path}`; "
                "a run reads one of the two",
                section=entry.key,
                line=document.line_of(other),
                path=path,
            ),
            hint=phrase("keep one; `swapconf migrate` rewrites one form as another"),
        )


def _graph_sections_in_pynative(document: Document, sign: str) -> Iterator[Finding]:
    for path, entry in _graph_entries(document):
        yield Finding(
            origin=document.key_origin(entry, path),
            rule=RULE,
            severity=Severity.ERROR,
            message=phrase(
                "`{path}` is the graph-mode form, and this is a PyNative YAML (it has `{section}`), which "
                "reads `swap`, `recompute` and `recompute_comm`",
                path=path,
                section=sign,
            ),
            hint=phrase("`swapconf migrate FILE --from legacy --to pynative` rewrites it"),
        )


def _graph_entries(document: Document) -> Iterator[tuple[str, Entry]]:
    for name in GRAPH_SECTIONS:
        if name in document.root.entries:
            yield name, document.root.entries[name]
    for entry in mcore_entries(document).values():
        yield f"model.model_config.{entry.key}", entry
