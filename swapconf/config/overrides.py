"""COMMAND LINE -> DOCUMENT: the YAML that a training script is started with, after its dotted overrides.

    run_mindformer.py --config train.yaml --use_parallel True --swap_config.default_prefetch=20

Only what every such script has in common is understood (``--config``, ``--a.b.c VALUE`` and ``--a.b.c=VALUE``, and the
plain options that name a top-level key); the script itself refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from swapconf.config import base_config
from swapconf.config.dialects import GRAPH_SECTIONS, MCORE_SWAP_KEYS, PYNATIVE_ONLY, PYNATIVE_SECTIONS
from swapconf.config.nodes import Document, from_plain
from swapconf.config.yaml_document import parse_value
from swapconf.words.findings import SwapconfError
from swapconf.words.phrases import phrase

_MOST_NAMES = 12
_ABSENT = object()
_MODEL = "model.model_config"
_IN_MODEL = tuple(name for names in MCORE_SWAP_KEYS.values() for name in names)

# options of mindformers' own script that set a key which decides about swap
_NAMED = {
    "use_parallel": "use_parallel",
    "run_mode": "run_mode",
    "device_target": "context.device_target",
    "mode": "context.mode",
    "gradient_accumulation_steps": "runner_config.gradient_accumulation_steps",
}


def config_file(words: Sequence[str]) -> str | None:
    """The file that ``--config`` names."""
    return next((value for option, value in _pairs(words) if option == "config"), None)


def read(words: Sequence[str], changes: Sequence[str] = ()) -> Document | None:
    """The document that ``--config`` names, with the overrides applied; None without ``--config``.

    ``changes``: further overrides, ``a.b.c=VALUE`` each, for keys of any depth in a section that the file has. An
    override among ``words`` makes the section that it lacks, as mindformers' ``merge_from_dict`` does. Raises
    SwapconfError when the file cannot be read, ValueError for a change that cannot be made and for an override of
    nearly a section of ours.
    """
    file = config_file(words)
    if file is None:
        return None
    document = base_config.of_file(file)
    values: Any = document.root.plain()
    done = []
    for option, text in _pairs(words):
        path = option if "." in option else _NAMED.get(option)
        if path is not None and _override(values, path.split("."), text):
            done.append(path)
    return changed(_with(document, values, done), changes)


def of_file(file: str, changes: Sequence[str] = ()) -> Document:
    """The document in a file after overrides, as ``changed``. Raises SwapconfError when the file cannot be read."""
    return changed(base_config.of_file(file), changes)


def changed(document: Document, changes: Sequence[str]) -> Document:
    """A document after overrides, ``a.b.c=VALUE`` each, for keys of any depth; without a value the key is left out.
    Raises ValueError for a change that cannot be made."""
    values: Any = document.root.plain()
    return _with(document, values, [_change(values, change) for change in changes])


def unsaid(document: Document, changes: Sequence[str]) -> tuple[str, ...]:
    """Those of the changes without which the document says something else; but for swap and recompute, which a plan
    decides."""
    decided = (*GRAPH_SECTIONS, *PYNATIVE_SECTIONS, *(f"{_MODEL}.{name}" for name in _IN_MODEL))
    values: Any = document.root.plain()
    found = []
    for change in changes:
        if f"{change.partition('=')[0]}.".startswith(tuple(f"{name}." for name in decided)):
            continue
        before = deepcopy(values)
        _change(values, change)
        if values != before:
            found.append(change)
    return tuple(found)


def _with(document: Document, values: Any, paths: Sequence[str]) -> Document:
    """The document with other values at some paths; what its reading found elsewhere still holds."""
    if not paths:
        return document
    findings = tuple(
        finding
        for finding in document.findings
        if not any(
            finding.origin.path == path or finding.origin.path.startswith((f"{path}.", f"{path}[")) for path in paths
        )
    )
    return replace(from_plain(values, document), findings=findings)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--"):
            continue
        option, equals, value = word[2:].partition("=")
        if not equals and index < len(words) and not words[index].startswith("--"):
            value = words[index]
            index += 1
        yield option, value


def _override(values: dict[str, Any], path: list[str], text: str) -> bool:
    """Whether it is one; what is none, the script has to judge."""
    ours = _ours(values)
    meant = get_close_matches(path[0], ours, n=1, cutoff=0.8) if path[0] not in {*values, *ours} else []
    if meant:
        raise ValueError(
            phrase(
                "--{option}: the file has no section `{section}`; `{name}` was probably meant",
                option=".".join(path),
                section=path[0],
                name=meant[0],
            )
        )
    try:
        value = parse_value(text)
    except SwapconfError:
        return False
    node: Any = values
    for step in path[:-1]:
        node = node.setdefault(step, {}) if isinstance(node, dict) else None
    if not isinstance(node, dict) or not all(path):
        return False
    node[path[-1]] = value
    return True


def _change(values: dict[str, Any], change: str) -> str:
    """Make ``a.b.c=VALUE`` in the values, and return its key; sections that swapconf is about need not be there yet, as
    in a run. Raises ValueError, which says what is wrong with it."""
    name, equals, text = change.partition("=")
    path = name.split(".")
    if not equals:
        raise ValueError(phrase("'{change}' gives no value; write A.B.C=VALUE", change=change))
    if not all(part.strip() for part in path):
        raise ValueError(phrase("'{change}' has an empty name before the `=`; write A.B.C=VALUE", change=change))
    try:
        value = parse_value(text)
    except SwapconfError as error:
        raise ValueError(
            phrase("'{change}': the value cannot be read: {problem}", change=change, problem=error.findings[0].message)
        ) from None
    node: Any = values
    if text and len(path) > 1 and path[0] in _ours(values):
        node.setdefault(path[0], {})
    for depth, step in enumerate(path[:-1]):
        if step not in node:
            raise ValueError(
                phrase(
                    "'{change}': the file has no section `{section}`; {hint}",
                    change=change,
                    section=".".join(path[: depth + 1]),
                    hint=_sections(node, path[:depth], step, () if depth else _ours(values)),
                )
            )
        node = node[step]
        if not isinstance(node, dict):
            raise ValueError(
                phrase(
                    "'{change}': `{section}` is no section but {kind}; set it as a whole",
                    change=change,
                    section=".".join(path[: depth + 1]),
                    kind=phrase("a list") if isinstance(node, list) else phrase("a single value"),
                )
            )
    if text:
        node[path[-1]] = value
    elif node.pop(path[-1], _ABSENT) is _ABSENT:
        raise ValueError(
            phrase(
                "'{change}': the file has no key `{key}` to leave out; {hint}",
                change=change,
                key=name,
                hint=_keys(node, path[-1]),
            )
        )
    return name


def _ours(values: dict[str, Any]) -> tuple[str, ...]:
    """The sections that swapconf is about, in the form of these values."""
    return PYNATIVE_SECTIONS if any(name in values for name in PYNATIVE_ONLY) else GRAPH_SECTIONS


def _keys(node: dict[str, Any], name: str) -> str:
    if close := get_close_matches(name, map(str, node), n=1):
        return phrase("`{name}` was probably meant", name=close[0])
    return phrase("drop the option")


def _sections(node: dict[str, Any], above: list[str], step: str, ours: tuple[str, ...]) -> str:
    """What was probably meant by the name of a section, else which there are. ``ours``: need not be there to be."""
    known = [key for key, value in node.items() if isinstance(value, dict)]
    if close := get_close_matches(step, [*known, *ours], n=1):
        return phrase("`{name}` was probably meant", name=".".join([*above, close[0]]))
    if not known:
        return phrase("there is none at that place")
    return phrase("it has {names}", names=", ".join(known[:_MOST_NAMES]) + ", ..." * (len(known) > _MOST_NAMES))
