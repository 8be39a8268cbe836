"""DOCUMENT -> DOCUMENT: a training YAML with the Hugging Face config.json of its ``pretrained_model_dir``.

mindformers 1.9.0 (``merge_model_config``) takes the model from that file, and `model.model_config` over it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapconf.config.nodes import Document, Entry, Node, borrowed
from swapconf.files.opening import read_bytes
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pretrained-config"
KEY, FILE = "pretrained_model_dir", "config.json"
_MAX_BYTES = 1 << 20


def merged(document: Document) -> tuple[Document, tuple[Finding, ...]]:
    """The same document where it names no such folder; one with the file instead of its name where that is read. A
    relative path means the folder that the command was started in, as in a training; what comes from the file stands in
    the YAML where the folder is named."""
    entry = document.root.entries.get(KEY)
    named = entry.value.scalar if entry is not None else None
    if entry is None or not isinstance(named, str) or not named or "\0" in named:
        return document, ()
    try:
        given = _read(Path(named) / FILE)
    except (OSError, ValueError, RecursionError) as error:
        return document, (_finding(document, entry, Path(named) / FILE, error),)
    return replace(document, root=_over(document.root, given, entry)), ()


def _read(path: Path) -> dict[str, Any]:
    data = read_bytes(path, _MAX_BYTES)
    if len(data) > _MAX_BYTES:
        raise ValueError(phrase("it is larger than {size:,} bytes", size=_MAX_BYTES))
    given = json.loads(data)
    if not isinstance(given, dict):
        raise ValueError(phrase("it holds no object"))
    return given


def _over(root: Node, given: dict[str, Any], place: Entry) -> Node:
    nothing = Node("mapping", place.line, place.column, file=place.file)
    empty = Entry("model", place.line, place.column, nothing, place.file)
    model = root.entries.get("model", empty)
    sizes = model.value.entries.get("model_config", replace(empty, key="model_config"))
    if "mapping" not in (model.value.kind, sizes.value.kind) or model.value.kind != "mapping":
        return root
    from_file = borrowed(given, nothing).entries
    own = sizes.value.entries
    whole = replace(sizes.value, kind="mapping", entries={**from_file, **own})
    inside = replace(model.value, entries={**model.value.entries, "model_config": replace(sizes, value=whole)})
    others = {key: entry for key, entry in root.entries.items() if key != KEY}
    return replace(root, entries={**others, "model": replace(model, value=inside)})


def _finding(document: Document, entry: Entry, path: Path, error: Exception) -> Finding:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Finding(
        origin=document.key_origin(entry, KEY),
        rule=RULE,
        severity=Severity.NOTE,
        message=phrase(
            "{path} cannot be read ({reason}), from which mindformers takes the model; only what the YAML "
            "itself says of it is known",
            path=path,
            reason=reason,
        ),
        hint=phrase("put the config.json of the model there; the weights are not needed here"),
    )
