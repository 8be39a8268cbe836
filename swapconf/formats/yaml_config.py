"""DOCUMENT -> CONFIG: the swap and recompute sections of a training YAML, in both of mindformers' spellings.

The legacy models read ``swap_config`` and ``recompute_config``; the mcore models (``use_legacy: False``) also take the
same keys inside ``model.model_config``, where ``cpu_offloading`` is ``swap`` and ``cpu_offloading_num_layers`` is
``layer_swap`` (mindformers 1.9.0, parallel_core/transformer_config_utils.py).
A value that is wrong becomes a finding and is left out of the config; everything else is still read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from swapconf.config import Config, SwapOff
from swapconf.errors import Finding, Origin, Severity, in_order
from swapconf.formats import recompute_section, surroundings, swap_section
from swapconf.formats.nodes import Document, Node
from swapconf.formats.structure import Section, check_section
from swapconf.formats.yaml_document import parse, read_text

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
    legacy = around.config.model.legacy
    swaps, swap_twice = _section(document, "swap_config", _SWAP_KEYS, legacy)
    recomputes, recompute_twice = _section(document, "recompute_config", _RECOMPUTE_KEYS, legacy)
    swap = swap_section.read(swaps)
    recompute, misfits = recompute_section.read(recomputes, swap_on=not isinstance(swap, SwapOff), legacy=legacy)
    config = replace(around.config, swap=swap, recompute=recompute,
                     origins={**around.config.origins, **_origins(swaps, "swap_config"),
                              **_origins(recomputes, "recompute_config")})
    findings = [*document.findings, *around.findings, *swap_twice, *recompute_twice, *swaps.findings,
                *recomputes.findings, *swap_section.refused_by_mindformers(swaps), *misfits]
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


def _origins(section: Section, name: str) -> dict[str, Origin]:
    """Places by canonical name, whatever the spelling: `swap_config.swap` and so on."""
    return {f"{name}.{key}": section.document.key_origin(entry, section.name((key,)))
            for key, entry in section.node.entries.items()}
