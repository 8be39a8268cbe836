"""DOCUMENT -> CONFIG: the swap and recompute sections of a training YAML, in each of mindformers' three dialects.

The legacy models read ``swap_config`` and ``recompute_config``; the mcore models (``use_legacy: False``) also take the
same keys inside ``model.model_config``, where ``cpu_offloading`` is ``swap`` and ``cpu_offloading_num_layers`` is
``layer_swap`` (mindformers 1.9.0, parallel_core/transformer_config_utils.py). PyNative training has ``swap``,
``recompute`` and ``recompute_comm`` (mindformers 2.0.0 and 2.1.0, pynative/config/config.py).
A value that is wrong becomes a finding and is left out of the config; everything else is still read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swapconf.config import base_config, misplaced, recompute_section, surroundings, swap_section
from swapconf.config.config import Config, Dialect, SwapOff
from swapconf.config.dialects import MCORE_SWAP_KEYS, PYNATIVE_SECTIONS, RECOMPUTE_KEYS, clashes, dialect_of
from swapconf.config.misplaced import asks
from swapconf.config.nodes import Document, Entry, Node
from swapconf.config.structure import Section, check_section
from swapconf.words.findings import Finding, Origin, Severity, in_order
from swapconf.words.phrases import phrase

ANY_VERSION = "0.0"
_MODEL_CONFIG = "model.model_config"
# what mindformers 1.9.0 puts where a YAML has no such section (tools/register/template.py, SwapConfig)
FILLED_IN = {"swap_config": {"swap": False, "layer_swap": None, "op_swap": None, "default_prefetch": 1}}


def read(path: str | Path, mindformers: str = ANY_VERSION) -> tuple[Config, tuple[Finding, ...]]:
    """The config in a YAML file and what is wrong with it. Raises SwapconfError when nothing can be read."""
    return from_document(base_config.of_file(path), mindformers=mindformers)


def from_document(
    document: Document, dialect: Dialect | None = None, mindformers: str = ANY_VERSION
) -> tuple[Config, tuple[Finding, ...]]:
    """The config in a document and every finding of its reading, in order.

    ``dialect``: read this one's sections, even where the model of the YAML does not (a migration does so).
    ``mindformers``: the version that reads PyNative's sections; one before 2.0.0 leaves their version open.
    """
    around = surroundings.read(document, mindformers)
    chosen = dialect or dialect_of(document, legacy=around.config.model.legacy)
    base = replace(around.config, dialect=chosen)
    config, found = _pynative(document, base, mindformers) if chosen is Dialect.PYNATIVE else _graph(document, base)
    return config, in_order(
        [*document.findings, *around.findings, *clashes(document, chosen), *misplaced.check(document, chosen), *found]
    )


def _graph(document: Document, base: Config) -> tuple[Config, list[Finding]]:
    legacy = base.model.legacy
    in_model = not legacy or base.dialect is Dialect.MCORE
    swaps, swap_twice = _section(document, "swap_config", MCORE_SWAP_KEYS, in_model)
    recomputes, recompute_twice = _section(
        document, "recompute_config", {key: (key,) for key in RECOMPUTE_KEYS}, in_model
    )
    swap = swap_section.read(swaps)
    recompute, misfits = recompute_section.read(recomputes, swap_on=not isinstance(swap, SwapOff), legacy=legacy)
    config = replace(
        base,
        swap=swap,
        recompute=recompute,
        origins={**base.origins, **_origins(swaps, "swap_config"), **_origins(recomputes, "recompute_config")},
    )
    return config, [
        *swap_twice,
        *recompute_twice,
        *swaps.findings,
        *recomputes.findings,
        *swap_section.refused_by_mindformers(swaps),
        *misfits,
    ]


def _pynative(document: Document, base: Config, mindformers: str) -> tuple[Config, list[Finding]]:
    from swapconf.config import layout, pynative_form, pynative_sections  # most YAMLs are of graph mode

    blanks = [
        Section(document, entry.value if entry else Node("mapping", 0, 0), name)
        for name in PYNATIVE_SECTIONS
        for entry in [document.root.entries.get(name)]
    ]
    swap_part, recompute_part, comm = (check_section(blank, f"pynative_{blank.path}") for blank in blanks)
    sections = pynative_sections.Sections(swap_part, recompute_part, comm, base.num_named_layers, mindformers)
    swap, recompute, misfits = pynative_sections.read(sections)
    config = replace(
        base,
        swap=swap,
        recompute=recompute,
        layout=layout.read(document),
        origins={
            **base.origins,
            **layout.origins(document),
            **_origins(swap_part, "swap"),
            **_origins(recompute_part, "recompute"),
            **_origins(comm, "recompute_comm"),
        },
    )
    return config, [
        *swap_part.findings,
        *recompute_part.findings,
        *comm.findings,
        *misfits,
        *pynative_form.check(sections),
    ]


def _section(
    document: Document, name: str, keys: dict[str, tuple[str, ...]], in_model: bool
) -> tuple[Section, list[Finding]]:
    """The checked section, gathered from the place that is read; ``in_model``: model_config is one."""
    own, inner = document.root.entries.get(name), _in_model_config(document, keys)
    if inner and own and own.value.plain() == FILLED_IN.get(name):
        own = None
    section = Section(document, own.value if own else Node("mapping", 0, 0), name)
    findings = []
    if inner and own and own.value.entries:
        findings = [_given_twice(document, name, own, inner)]
    elif inner and in_model:
        section = Section(
            document, inner, _MODEL_CONFIG, written={key: entry.key for key, entry in inner.entries.items()}
        )
    elif inner:
        findings = [_of_legacy_model(document, name, key, entry) for key, entry in inner.entries.items()]
    return check_section(section, name), findings


def _in_model_config(document: Document, keys: dict[str, tuple[str, ...]]) -> Node | None:
    """Those of the keys that stand in ``model.model_config``, whatever they are called there; None without any."""
    model = document.root.get("model")
    settings = model.get("model_config") if model else None
    if settings is None:
        return None
    found = {
        key: settings.entries[written]
        for key, spellings in keys.items()
        for written in spellings
        if written in settings.entries
    }
    return Node("mapping", settings.line, settings.column, entries=found, file=settings.file) if found else None


def _given_twice(document: Document, name: str, own: Entry, inner: Node) -> Finding:
    key, entry = next(iter(inner.entries.items()))
    return Finding(
        origin=document.key_origin(entry, f"{_MODEL_CONFIG}.{entry.key}"),
        rule="section-given-twice",
        severity=Severity.ERROR,
        message=phrase(
            "`{key}` is set here and there is a `{section}` at line {line} as well",
            key=key,
            section=name,
            line=document.line_of(own),
        ),
        hint=phrase("keep one of the two; `{section}` works for every model under swapconf", section=name),
        stops_with=f"current convert is {entry.key}:",
    )


def _of_legacy_model(document: Document, name: str, key: str, entry: Entry) -> Finding:
    """``key``: what the section calls it."""
    return Finding(
        origin=document.key_origin(entry, f"{_MODEL_CONFIG}.{entry.key}"),
        rule="section-misplaced",
        severity=Severity.ERROR if asks(entry.value) else Severity.WARNING,
        message=phrase("a legacy model does not read `{key}` here", key=entry.key),
        hint=phrase("move it to `{section}:` at the top level", section=name)
        if key == entry.key
        else phrase("move it to `{section}:` at the top level, as `{key}`", section=name, key=key),
    )


def _origins(section: Section, name: str) -> dict[str, Origin]:
    """Places by canonical name, whatever the spelling: `swap_config.swap` and so on."""
    return {
        f"{name}.{key}": section.document.key_origin(entry, section.name((key,)))
        for key, entry in section.node.entries.items()
    }
