"""TEXT BEFORE + TEXT AFTER -> CONFIG: what the sections say after they were written, if nothing else has changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from swapconf.config import base_config, yaml_config
from swapconf.config.config import Config, Dialect, EveryLayer, LayerIndices, ListedSwap
from swapconf.config.dialects import GRAPH_SECTIONS, MCORE_SWAP_KEYS, PYNATIVE_SECTIONS, RECOMPUTE_KEYS
from swapconf.config.nodes import Document, Entry, Node
from swapconf.words.findings import Origin, SwapconfError
from swapconf.words.phrases import phrase

_SECTIONS = (*GRAPH_SECTIONS, *PYNATIVE_SECTIONS)
_SETTINGS = (*(name for names in MCORE_SWAP_KEYS.values() for name in names), *RECOMPUTE_KEYS)


class CannotRewrite(ValueError):
    """The sections cannot be rewritten without touching something else; the text says why, ``hint`` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def reread(text: str, document: Document, dialect: Dialect | None, mindformers: str) -> Config:
    """The config of the new ``text`` of a document. Raises CannotRewrite where anything but the sections for swap and
    recompute reads otherwise than before."""
    try:
        again = base_config.of_text(text, document.file)
    except SwapconfError as error:
        raise CannotRewrite(
            phrase("the rewritten file would not be readable ({why})", why=error.findings[0].message),
            phrase("an anchor or a merge key may reach into these sections: write their values out"),
        ) from None
    if _rest(again) != _rest(document):
        raise CannotRewrite(
            phrase("rewriting would change another section"),
            phrase("an anchor or a merge key may reach into these: write their values out"),
        )
    return yaml_config.from_document(again, dialect, mindformers)[0]


def refuse_elsewhere(document: Document) -> None:
    """Raises CannotRewrite where settings for swap or recompute stand in an included file."""
    for path, entry in _ours(document.root):
        file = _elsewhere(entry, document.file)
        if file:
            raise CannotRewrite(
                phrase("`{path}` stands in {file}, which this YAML includes", path=path, file=file),
                phrase("change that file, or move the section into this one"),
            )


def _ours(root: Node) -> Iterator[tuple[str, Entry]]:
    model = root.get("model")
    settings = model.get("model_config") if model is not None else None
    for path, node, names in (("", root, _SECTIONS), ("model.model_config.", settings, _SETTINGS)):
        yield from ((path + name, node.entries[name]) for name in names if node is not None and name in node.entries)


def _elsewhere(entry: Entry, file: str) -> str:
    """The other file in which an entry stands, or a part of it; "" for none."""
    if entry.file not in ("", file):
        return entry.file
    return next(filter(None, (_elsewhere(inner, file) for inner in entry.value.entries.values())), "")


def without_places(value: Any, num_layers: int | None = None) -> Any:
    """A config, or a part of one, as nested tuples without its places. ``num_layers``: where all of so many layers are
    the same as a list of them."""
    if isinstance(value, Origin):
        return None
    if isinstance(value, EveryLayer) and num_layers is not None:
        value = LayerIndices(tuple(range(num_layers)))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(without_places(getattr(value, item.name), num_layers) for item in fields(value))
    return tuple(without_places(item, num_layers) for item in value) if isinstance(value, tuple) else value


def asked(config: Config) -> object:
    """What the sections ask for, comparable: without places, and in however many entries names were written."""
    swap = replace(config.swap, given_entries=0) if isinstance(config.swap, ListedSwap) else config.swap
    # a PyNative YAML lists layers; the command line may have changed how many there are
    num_layers = config.num_named_layers if config.dialect is Dialect.PYNATIVE else None
    return without_places(swap, num_layers), without_places(config.recompute, num_layers)


def _rest(document: Document) -> Any:
    """All values of a file but those for swap and recompute."""
    values: Any = document.root.plain()
    kept = {key: value for key, value in values.items() if key not in _SECTIONS}
    model = kept.get("model")
    if isinstance(model, dict) and isinstance(model.get("model_config"), dict):
        settings = {key: value for key, value in model["model_config"].items() if key not in _SETTINGS}
        kept["model"] = {**model, "model_config": settings}
    return kept
