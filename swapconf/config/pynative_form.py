"""SECTIONS -> FINDINGS: what stands in PyNative's sections without effect, and what mindformers misses there.

Source: mindformers 2.0.0 and 2.1.0, pynative/distributed/activation_checkpoint.py: apply_recompute, apply_swap and the
functions that validate their sections. They differ in the form of `exclude_op` only.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.pynative_sections import Sections
from swapconf.config.structure import Place, Section
from swapconf.upstream.versions import EXCLUDE_BY_PATH, PYNATIVE, reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-form"


def check(sections: Sections) -> Iterator[Finding]:
    yield from _swap(sections.swap, sections.num_layers)
    yield from _recompute(sections.recompute)
    yield from _exclude_op(sections)
    if _value(sections.recompute, "mode") in ("full", "select"):
        yield from _nameless(sections.recompute)
    if _value(sections.comm, "enable") is True:
        yield from _nameless(sections.comm)
    if _value(sections.comm, "enable") is True and not _filled(sections.comm, "select_module"):
        yield _finding(
            sections.comm,
            ("enable",),
            phrase("mindformers stops: communication recompute needs `select_module`"),
            phrase("map operator paths to layer ranges in `select_module`, or write enable: False"),
        )


def _swap(section: Section, num_layers: int | None) -> Iterator[Finding]:
    on = section.is_on("enable")
    lists = [key for key in ("layer_swap", "op_swap") if _filled(section, key)]
    if not on and "enable" not in section.node.entries and "swap" in section.node.entries:
        return  # the wrong key for `enable`, which is told
    if not on:
        for key in lists:
            yield _finding(
                section,
                (key,),
                phrase("no effect: `enable` is not True"),
                phrase("write `enable: True`, or remove it"),
                Severity.NOTE if "enable" in section.node.entries else Severity.WARNING,
            )
    elif not lists:
        yield from _nothing_listed(section, num_layers)
    layer_swap = section.node.get("layer_swap")
    for index in range(1, len(layer_swap.items) if on and layer_swap is not None else 0):
        yield _finding(
            section,
            ("layer_swap", index),
            phrase("mindformers reads the first entry of layer_swap only"),
            phrase("add its layers to the list of the first entry"),
        )


def _nothing_listed(section: Section, num_layers: int | None) -> Iterator[Finding]:
    """mindformers looks at the prefetch all the same; that of what is listed is `pynative-prefetch-range`."""
    prefetch = _value(section, "default_prefetch")
    if isinstance(prefetch, int) and num_layers is not None and prefetch >= num_layers:
        yield _finding(
            section,
            ("default_prefetch",),
            phrase(
                "mindformers stops: with {count} layers `default_prefetch` is at most {most}",
                count=num_layers,
                most=num_layers - 1,
            ),
            phrase("lower default_prefetch"),
        )
    yield _finding(
        section,
        ("enable",),
        phrase("nothing is swapped: PyNative has no default strategy"),
        phrase("list layers in `layer_swap` or modules in `op_swap`"),
        Severity.WARNING,
    )


def _recompute(section: Section) -> Iterator[Finding]:
    if "mode" in section.node.entries and not section.sound("mode"):
        return  # nobody knows which mode was meant
    mode = _value(section, "mode")
    if mode == "full" and not _filled(section, "full_recompute_layer"):
        yield _finding(
            section,
            ("mode",),
            phrase("mindformers stops: mode full needs `full_recompute_layer`"),
            phrase("list layer ranges in `full_recompute_layer`"),
        )
    if mode == "select" and not _filled(section, "select_module"):
        yield _finding(
            section,
            ("mode",),
            phrase("mindformers stops: mode select needs `select_module`"),
            phrase("map module paths to layer ranges in `select_module`"),
        )
    if mode == "full" and _filled(section, "select_module"):
        yield _finding(
            section,
            ("select_module",),
            phrase("no effect with mode full"),
            phrase("write mode: select to use it"),
            Severity.WARNING,
        )
    if mode in (None, "None"):
        for key in ("full_recompute_layer", "select_module", "exclude_op"):
            if _filled(section, key):
                yield _finding(
                    section,
                    (key,),
                    phrase("no effect: mode is None"),
                    phrase("write mode: full or mode: select"),
                    Severity.NOTE if mode else Severity.WARNING,
                )


def _nameless(section: Section) -> Iterator[Finding]:
    """Paths without a letter, which mindformers refuses in `select_module` and 2.1.0 in `exclude_op`, too."""
    for key in ("select_module", "exclude_op"):
        node = section.node.get(key)
        for entry in node.entries.values() if node is not None else ():
            if not entry.key.strip():
                yield Finding(
                    origin=section.document.key_origin(entry, section.name((key,))),
                    rule=RULE,
                    severity=Severity.ERROR,
                    message=phrase("mindformers stops: a module path is empty"),
                    hint=phrase("write a path such as {example}, or remove the entry", example="'mlp'"),
                )


def _exclude_op(sections: Sections) -> Iterator[Finding]:
    """The form of the other release, which mindformers refuses with a TypeError. One without PyNative (the version of
    the run is then not known) takes both."""
    section, mindformers = sections.recompute, sections.mindformers
    node = section.node.get("exclude_op")
    if node is None or not section.sound("exclude_op") or not reached(mindformers, PYNATIVE):
        return
    if reached(mindformers, EXCLUDE_BY_PATH) and node.kind == "list":
        yield _finding(
            section,
            ("exclude_op",),
            phrase(
                "mindformers {version} takes a mapping from path to layer ranges here; a list of "
                "operator names is the form of 2.0",
                version=mindformers,
            ),
            phrase(
                "name modules or operators by path, such as {example}",
                example="'self_attention\\.core_attention': ['0-3']",
            ),
        )
    elif not reached(mindformers, EXCLUDE_BY_PATH) and node.kind == "mapping":
        yield _finding(
            section,
            ("exclude_op",),
            phrase(
                "mindformers {version} takes a list of operator names here; a mapping from path to layer "
                "ranges is the form of {first} and later",
                version=mindformers,
                first=EXCLUDE_BY_PATH,
            ),
            phrase("list parts of operator names, such as {example}", example="['AllGather']"),
        )


def _value(section: Section, key: str) -> object:
    node = section.node.get(key)
    return node.scalar if node is not None and section.sound(key) else None


def _filled(section: Section, key: str) -> bool:
    node = section.node.get(key)
    return node is not None and bool(node.items or node.entries)


def _finding(section: Section, place: Place, message: str, hint: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(origin=section.origin(place), rule=RULE, severity=severity, message=message, hint=hint)
