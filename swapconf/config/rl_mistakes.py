"""DOCUMENT + PARTS -> FINDINGS: settings of a YAML of RL training that mindrlhf does not take, or not from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swapconf.config.dialects import GRAPH_SECTIONS
from swapconf.config.meant import meant
from swapconf.config.misplaced import asks
from swapconf.config.nodes import Document, Entry
from swapconf.config.rl_training import ASKED, MAX_MODELS, ROLES, RULE, SECTIONS, TRAINED, Part, models_of
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

# keys of mindformers' recompute_config that RecomputeConfig of mindrlhf lacks (grpo_configs.py)
_LACKING = ("select_recompute_exclude", "select_comm_recompute_exclude")


def check(document: Document, parts: Sequence[Part]) -> Iterator[Finding]:
    yield from _at_the_top(document)
    for beyond in models_of(document)[MAX_MODELS:]:
        yield Finding(
            origin=document.key_origin(beyond, beyond.key),
            rule=RULE,
            severity=Severity.NOTE,
            message=phrase("not checked: {count} models of one file are", count=MAX_MODELS),
            hint=phrase("write fewer models into one file"),
        )
    for name in ROLES:
        section = document.root.entries.get(name)
        if section is not None:
            yield from _in_section(document, section)
    for part in parts:
        yield from _in_model(document, part)


def _at_the_top(document: Document) -> Iterator[Finding]:
    """mindrlhf takes its own sections only (``GRPOConfig.__init__``)."""
    if document.included:
        yield _stops(document, document.root.entries[next(iter(document.root.entries))], "base_config", "")
    for key, entry in document.root.entries.items():
        if key in SECTIONS or (entry.value.kind == "mapping" and meant(key, GRAPH_SECTIONS)):
            yield Finding(
                origin=document.key_origin(entry, key),
                rule=RULE,
                severity=Severity.ERROR if asks(entry.value) else Severity.WARNING,
                message=phrase("mindrlhf reads no section `{key}` at the top level", key=key),
                hint=phrase("move it below the section of the model that it is for, such as `{name}`", name=TRAINED[0]),
            )


def _in_section(document: Document, section: Entry) -> Iterator[Finding]:
    for key, entry in section.value.entries.items():
        name = meant(key, SECTIONS)
        path = f"{section.key}.{key}"
        if name is None:
            continue
        if name != key:
            hint = phrase("`{name}` was probably meant; rename it", name=name)
            yield _stops(document, entry, path, hint)
        elif key == "swap_config":
            hint = phrase("remove it: mindrlhf passes no swap on to a model")
            yield _stops(document, entry, path, hint)
        elif key == "recompute_config" and section.key in TRAINED:
            yield from _lacking(document, entry, path)
        elif key == "recompute_config" and asks(entry.value):
            yield Finding(
                origin=document.key_origin(entry, path),
                rule=RULE,
                severity=Severity.NOTE,
                message=phrase("nothing is recomputed here: only the actor is trained, and the others are asked"),
                hint=phrase("remove it, or write it below `{name}`", name=TRAINED[0]),
            )


def _lacking(document: Document, section: Entry, above: str) -> Iterator[Finding]:
    for key in _LACKING:
        entry = section.value.entries.get(key)
        if entry is not None:
            yield Finding(
                origin=document.key_origin(entry, f"{above}.{key}"),
                rule=RULE,
                severity=Severity.WARNING,
                message=phrase("mindrlhf of August 2025 has no `{key}`, and stops at it", key=key),
                hint=phrase("select the operators that are to be recomputed instead"),
            )


def _in_model(document: Document, part: Part) -> Iterator[Finding]:
    """Sections of the model's own YAML that those of the RL YAML replace."""
    section = document.root.entries[part.name]
    for name in GRAPH_SECTIONS if part.model is not None and part.name != ASKED else ():
        entry = part.model.entries.get(name) if part.model is not None else None
        if entry is None or not _switches_on(entry):
            continue
        origin = part.document.key_origin(entry, name)
        if origin.file == document.file:
            continue
        swaps = name == "swap_config"
        yield Finding(
            origin=origin,
            rule=RULE,
            severity=Severity.WARNING if swaps else Severity.NOTE,
            message=phrase("no effect in {file}: mindrlhf passes no swap on to a model", file=document.file)
            if swaps
            else phrase(
                "no effect in {file}: what counts there is `{section}` of line {line}",
                file=document.file,
                section=f"{part.name}.{name}",
                line=section.line,
            ),
            hint=phrase("recompute there, below `{section}`", section=part.name)
            if swaps
            else phrase("write there what is meant for RL training"),
        )


def _switches_on(entry: Entry) -> bool:
    if entry.key == "swap_config":
        switch = entry.value.get("swap")
        return switch is not None and switch.scalar is True
    return any(asks(inner.value) for inner in entry.value.entries.values() if inner.key != "mp_comm_recompute")


def _stops(document: Document, entry: Entry, path: str, hint: str) -> Finding:
    section, _, key = path.rpartition(".")
    return Finding(
        origin=document.key_origin(entry, path),
        rule=RULE,
        severity=Severity.ERROR,
        message=phrase("mindrlhf stops: `{section}` has no `{key}`", section=section, key=key)
        if section
        else phrase("mindrlhf reads one file: it stops at `{key}`", key=key),
        hint=hint or phrase("write the sections of the included files into this one"),
    )
