"""COMMAND LINE -> DOCUMENT: the YAML that a training script is started with, after its dotted overrides.

    run_mindformer.py --config train.yaml --use_parallel True --swap_config.default_prefetch=20

Only what every such script has in common is understood (``--config``, ``--a.b.c VALUE`` and ``--a.b.c=VALUE``, and the
plain options that name a top-level key); the script itself refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from swapconf.errors import SwapconfError
from swapconf.formats.nodes import Document, from_plain
from swapconf.formats.yaml_document import parse, parse_value, read_text
from swapconf.phrases import phrase

# options of mindformers' own script that set a key which decides about swap
_NAMED = {"use_parallel": "use_parallel", "run_mode": "run_mode", "device_target": "context.device_target",
          "mode": "context.mode", "gradient_accumulation_steps": "runner_config.gradient_accumulation_steps"}


def config_file(words: Sequence[str]) -> str | None:
    """The file that ``--config`` names."""
    return next((value for option, value in _pairs(words) if option == "config"), None)


def read(words: Sequence[str], changes: Sequence[str] = ()) -> Document | None:
    """The document that ``--config`` names, with the overrides applied; None without ``--config``.

    ``changes``: further overrides, ``a.b.c=VALUE`` each, for keys of any depth. Raises SwapconfError when the file
    cannot be read, ValueError for a change that cannot be made.
    """
    file = config_file(words)
    if file is None:
        return None
    document = parse(read_text(file), file)
    values: Any = document.root.plain()
    done = []
    for option, text in _pairs(words):
        path = option if "." in option else _NAMED.get(option)
        if path is not None and _set(values, path.split("."), text):
            done.append(path)
    return changed(_with(document, values, done), changes)


def of_file(file: str, changes: Sequence[str] = ()) -> Document:
    """The document in a file after overrides, as ``changed``. Raises SwapconfError when the file cannot be read."""
    return changed(parse(read_text(file), file), changes)


def changed(document: Document, changes: Sequence[str]) -> Document:
    """A document after overrides, ``a.b.c=VALUE`` each, for keys of any depth. Raises ValueError for a change that
    cannot be made."""
    values: Any = document.root.plain()
    done = []
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not _set(values, path.split("."), text):
            raise ValueError(phrase("'{change}' cannot be set: write A.B.C=VALUE with a section that the file has",
                                    change=change))
        done.append(path)
    return _with(document, values, done)


def _with(document: Document, values: Any, paths: Sequence[str]) -> Document:
    """The document with other values at some paths; what its reading found elsewhere still holds."""
    if not paths:
        return document
    findings = tuple(finding for finding in document.findings if not any(
        finding.origin.path == path or finding.origin.path.startswith((f"{path}.", f"{path}[")) for path in paths))
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


def _set(values: dict[str, Any], path: list[str], text: str) -> bool:
    try:
        value = parse_value(text)
    except SwapconfError:
        return False
    node: Any = values
    for step in path[:-1]:
        node = node.get(step) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return False
    node[path[-1]] = value
    return True
