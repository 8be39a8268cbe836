"""DOCUMENT -> PARTS: a YAML of RL training as one training document for each model that it trains or asks.

mindrlhf (e8a8fc1, August 2025; mindrlhf/configs/grpo_configs.py and mindrlhf/worker) reads of each model the YAML that
``model_config`` names, by the folder that it is started in. ``parallel_config``, ``recompute_config`` and ``offset``
of the model's own section stand in the place of what that YAML says, and ``context`` and ``rl_config.use_parallel`` of
the RL YAML hold for all; ``swap_config`` is not passed on. Only the actor is trained (of PPO, a critic, too): of the
others, `recompute_config` is not read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from swapconf.config import base_config
from swapconf.config.nodes import Document, Entry, Included, Node
from swapconf.words.findings import Finding, Severity, SwapconfError
from swapconf.words.phrases import phrase

RULE = "rl-training"
MODEL = "model_config"
SECTIONS = ("parallel_config", "recompute_config", "swap_config")
TRAINED = ("actor_config", "critic_config")
ASKED = "ref_config"  # a model that is asked, and not trained; its layers and stages are told, too
ROLES = (*TRAINED, ASKED, "reward_config", "generate_config")
MAX_MODELS = 8  # PPO has four; each may be a file of its own
_OFFSET = "model.model_config.offset"
_OF_MODEL = ("model", "moe_config", "use_legacy", "pretrained_model_dir")
_MAX_PARENTS = 8  # folders above that of the YAML, in which the sources of mindrlhf may begin


@dataclass(frozen=True, slots=True)
class Part:
    """One model of a YAML of RL training.

    Attributes:
        name: Its section.
        document: What a training YAML would say for it; findings point at where the values stand.
        model: The root of the YAML that names its layers, None where it cannot be read.
    """

    name: str
    document: Document
    model: Node | None

    @property
    def is_trained(self) -> bool:
        return self.name != ASKED


class _Model(NamedTuple):
    """``findings``: of its reading, or why there was none."""

    root: Node | None
    included: tuple[Included, ...] = ()
    findings: tuple[Finding, ...] = ()


def is_one(document: Document) -> bool:
    """Whether sections of a training stand below those of models."""
    return "model" not in document.root.entries and any(map(_is_model, document.root.entries.values()))


def parts_of(document: Document) -> tuple[Part, ...]:
    """The models that are trained, and the reference, in the order of the file."""
    return tuple(_part(document, entry) for entry in models_of(document)[:MAX_MODELS])


def models_of(document: Document) -> list[Entry]:
    """The sections of these models, however many there are."""
    told = (*TRAINED, ASKED)
    return [
        entry
        for name, entry in document.root.entries.items()
        if _is_model(entry) and (name not in ROLES or name in told)
    ]


def _is_model(entry: Entry) -> bool:
    inside = entry.value.entries
    named = entry.key in ROLES or (entry.key.endswith("_config") and MODEL in inside)
    return named and any(name in inside and inside[name].value.kind == "mapping" for name in SECTIONS)


def _part(document: Document, section: Entry) -> Part:
    model = _model(document, section)
    given = section.value.entries
    entries = {name: model.root.entries[name] for name in _OF_MODEL if model.root and name in model.root.entries}
    if model.root is None and MODEL in given:
        entries["model"] = replace(given[MODEL], key="model", value=replace(given[MODEL].value, kind="mapping"))
    entries |= {name: given[name] for name in ("parallel_config", "recompute_config") if name in given}
    if section.key == ASKED:
        entries.pop("recompute_config", None)
    for path in ("context", "rl_config.use_parallel"):
        entry = document.entry_at(path)
        if entry is not None:
            entries[entry.key] = entry
    if model.root is not None and "model" in entries:
        entries["model"] = _with_offset(entries["model"], section)
    moved = {
        **{name: f"{section.key}.{name}" for name in SECTIONS},
        _OFFSET: f"{section.key}.offset",
        "use_parallel": "rl_config.use_parallel",
        "model": f"{section.key}.{MODEL}",
    }
    return Part(
        name=section.key,
        document=Document(
            file=document.file,
            root=replace(section.value, entries=entries),
            findings=model.findings,
            is_changed=document.is_changed,
            included=model.included,
            moved=tuple(moved.items()),
        ),
        model=model.root,
    )


def _with_offset(model: Entry, section: Entry) -> Entry:
    """The model with the offset of the section, 0 where that gives none."""
    sizes = model.value.entries.get("model_config")
    if sizes is None or sizes.value.kind != "mapping":
        return model
    zero = Node("scalar", section.line, section.column, scalar=0, file=section.file)
    offset = section.value.entries.get("offset", Entry("offset", section.line, section.column, zero, section.file))
    inner = replace(sizes, value=replace(sizes.value, entries={**sizes.value.entries, "offset": offset}))
    return replace(model, value=replace(model.value, entries={**model.value.entries, "model_config": inner}))


# --- the YAML of the model ------------------------------------------------------------------------------------------


def _model(document: Document, section: Entry) -> _Model:
    entry = section.value.entries.get(MODEL)
    if entry is None:
        return _Model(None)
    if entry.value.kind == "mapping":
        return _Model(_inline(entry))
    name = entry.value.scalar
    file = _found(name, document.file) if isinstance(name, str) and name else None
    if file is None:
        told = _unread(document, section, entry, phrase("there is no such file, neither here nor above the YAML"))
        return _Model(None, findings=(told,))
    try:
        read = base_config.of_file(file)
    except SwapconfError as error:
        return _Model(None, findings=(_unread(document, section, entry, error.findings[0].message),))
    return _Model(read.root, (Included(read.file, read.text), *read.included), read.findings)


def _inline(entry: Entry) -> Node:
    """The model written out in its place: a whole YAML, its `model`, or the sizes alone."""
    if "model" in entry.value.entries:
        return entry.value
    whole = MODEL in entry.value.entries
    inner = entry if whole else replace(entry, value=replace(entry.value, entries={MODEL: entry}))
    return replace(entry.value, entries={"model": replace(inner, key="model")})


def _found(name: str, file: str) -> str | None:
    """The file that a name means: in the folder that the command was started in, as in a training, else in that of the
    YAML or the nearest one above that has it."""
    if "\0" in name:
        return None
    folder = Path(os.path.abspath(file)).parent
    above = [folder, *folder.parents][:_MAX_PARENTS]
    near = [os.path.normpath(os.path.join(os.path.dirname(file), name))]
    places = [name, *near, *(os.path.normpath(parent / name) for parent in above)]
    return next(filter(os.path.isfile, map(str, places)), None)


def _unread(document: Document, section: Entry, entry: Entry, reason: str) -> Finding:
    return Finding(
        origin=document.origin(entry.value, f"{section.key}.{MODEL}"),
        rule=RULE,
        severity=Severity.NOTE,
        message=phrase(
            "the YAML of the model cannot be read ({reason}): what is in `{section}` is checked without its layers",
            reason=reason,
            section=section.key,
        ),
        hint=phrase("start the command in the folder that the training is started in"),
    )
