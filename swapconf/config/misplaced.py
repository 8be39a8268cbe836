"""DOCUMENT -> FINDINGS: settings for swap and recompute under another name, or where nothing reads them.

What mindformers does with them: at the top level and below `model`, `context` and `training` it ignores them; below
`parallel_config` and `runner_config` it stops (mindformers 1.9.0, tools/register/template.py, `Config.apply`: "gets an
unexpected key"). Mappings inside lists are not looked at: data sets and callbacks are other people's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from swapconf.config.config import Dialect
from swapconf.config.dialects import (
    GRAPH_SECTIONS,
    MCORE_SWAP_KEYS,
    PYNATIVE_SECTIONS,
    RECOMPUTE_KEYS,
    is_pynative_section,
)
from swapconf.config.meant import meant
from swapconf.config.nodes import Document, Entry, Node
from swapconf.words.findings import Finding, Severity
from swapconf.words.lookalikes import indented_by, told
from swapconf.words.phrases import phrase

# other things have keys of these names, too (`optimizer.swap`), so they count in these places only
_COMMON = ("swap", "recompute", "recompute_comm")
_THEIR_PLACES = (
    "",
    "model",
    "model.model_config",
    "context",
    "parallel",
    "parallel_config",
    "trainer",
    "runner_config",
    "training",
    "training_args",
    "parallelism",
)
_REFUSING = ("parallel_config", "runner_config")
_MAX_KEYS = 2_000  # a training YAML has a few hundred; keeps a file of nothing but keys from costing seconds


class _Stray(NamedTuple):
    """A key outside of its section.

    Attributes:
        name: What it means.
        home: The section it belongs to, or is.
    """

    path: str
    entry: Entry
    name: str
    home: str


class _Vocabulary(NamedTuple):
    """The keys of a dialect.

    Attributes:
        homes: Section by key, or by its own name.
        others: Sections of another dialect that a key may be meant to be as well.
        read: Paths at which something reads a key, and tells what is wrong.
    """

    homes: dict[str, str]
    read: frozenset[str]
    others: tuple[str, ...] = ()

    def meaning(self, key: str) -> str | None:
        name = meant(key, tuple(self.homes))
        return meant(key, self.others) if name is None and self.others else name


_MCORE_KEYS = tuple(name for names in MCORE_SWAP_KEYS.values() for name in names)
_GRAPH = _Vocabulary(
    homes={
        **{name: name for name in GRAPH_SECTIONS},
        **dict.fromkeys(_MCORE_KEYS, "swap_config"),
        **dict.fromkeys(RECOMPUTE_KEYS, "recompute_config"),
    },
    read=frozenset((*GRAPH_SECTIONS, *(f"model.model_config.{key}" for key in (*_MCORE_KEYS, *RECOMPUTE_KEYS)))),
)
_PYNATIVE = _Vocabulary(
    homes={
        **{name: name for name in PYNATIVE_SECTIONS},
        "layer_swap": "swap",
        "op_swap": "swap",
        "default_prefetch": "swap",
        "full_recompute_layer": "recompute",
        "select_module": "recompute",
        "exclude_op": "recompute",
    },
    others=GRAPH_SECTIONS,
    read=frozenset((*PYNATIVE_SECTIONS, *GRAPH_SECTIONS)),
)


def check(document: Document, dialect: Dialect) -> Iterator[Finding]:
    """One finding for each section that is misspelt, and for the keys of one section that stand in one wrong place."""
    if not _is_for_training(document.root) and not has_section_below(document):
        return  # some other tool's file
    odd = list(_oddly_indented(document))
    yield from odd
    strays = list(_strays(document, dialect))
    groups: dict[tuple[str, str], list[_Stray]] = {}
    for stray in strays:
        # a section is one mistake by itself; its keys outside of it are one together
        own = stray.path if stray.home == stray.name else ""
        groups.setdefault((own or _parent(stray.path), stray.home), []).append(stray)
    for group in groups.values():
        yield _finding(document, group)
    if not odd:
        yield from _empty_sections(document, dialect, {stray.home for stray in strays})


def is_told_of(key: str) -> bool:
    """Whether a key of a PyNative YAML that stands outside of its sections is a mistake of the kind looked for here."""
    return bool(indented_by(key)) or _PYNATIVE.meaning(key) is not None


def _is_for_training(root: Node) -> bool:
    return any(name in root.entries for name in ("model", *GRAPH_SECTIONS, *PYNATIVE_SECTIONS)) or any(
        meant(key, GRAPH_SECTIONS) for key in islice(root.entries, _MAX_KEYS)
    )


def has_section_below(document: Document) -> bool:
    """Whether a section of graph mode stands below another key, where mindformers does not look for it."""
    return any(
        entry.key in GRAPH_SECTIONS and entry.value.kind == "mapping" and "." in path
        for path, entry in islice(_keys(document.root), _MAX_KEYS)
    )


def asks(node: Node) -> bool:
    """Whether a value asks for anything: something in it is neither empty nor False."""
    if node.kind == "scalar":
        return node.scalar is not None and node.scalar is not False and node.scalar != ""
    return any(asks(item) for item in node.items) or any(asks(entry.value) for entry in node.entries.values())


def _strays(document: Document, dialect: Dialect) -> Iterator[_Stray]:
    known = _PYNATIVE if dialect is Dialect.PYNATIVE else _GRAPH
    last = ""
    for path, entry in islice(_outside_of_sections(document.root), _MAX_KEYS):
        if path.startswith(f"{last}.") or indented_by(entry.key) or path in known.read:
            continue
        name = known.meaning(entry.key)
        if name is None or (name in _COMMON and not _is_ours(path, entry, dialect)):
            continue
        last = path  # what is in it is no second mistake
        yield _Stray(path, entry, name, known.homes.get(name, name))


def _outside_of_sections(root: Node) -> Iterator[tuple[str, Entry]]:
    """All keys but those in a section, which have their own check."""
    for path, entry in _keys(root):
        section, dot, _ = path.partition(".")
        if not dot or section not in (*GRAPH_SECTIONS, *PYNATIVE_SECTIONS):
            yield path, entry


def _is_ours(path: str, entry: Entry, dialect: Dialect) -> bool:
    """Whether a key with a common name is about swap or recompute here, and is not told of elsewhere."""
    parent = _parent(path)
    if not parent and dialect is not Dialect.PYNATIVE and is_pynative_section(entry):
        return False  # the PyNative form; dialects.clashes tells it
    return parent in _THEIR_PLACES


def _keys(node: Node, path: str = "", seen: frozenset[Node] = frozenset()) -> Iterator[tuple[str, Entry]]:
    """Every key of the mappings in a mapping, each below the one that holds it; what an alias repeats, too."""
    for key, entry in node.entries.items():
        here = f"{path}.{key}" if path else key
        yield here, entry
        if entry.value not in seen:  # a node equals itself alone, or one that an alias repeats
            yield from _keys(entry.value, here, seen | {entry.value})


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _finding(document: Document, group: list[_Stray]) -> Finding:
    first = group[0]
    parent = _parent(first.path)
    refused = parent in _REFUSING
    # without anything of a training beside it, the file may be another program's
    sure = any(asks(stray.entry.value) for stray in group) and _is_for_training(document.root)
    severity = Severity.ERROR if refused or sure else Severity.WARNING
    message: str
    hint: str
    if not parent and first.home == first.name:
        rule, message = "unknown-section", phrase("nothing reads a section `{key}`", key=first.entry.key)
        hint = phrase("`{name}` was probably meant; rename it", name=first.name)
    elif parent == "model.model_config" and first.home != first.name:
        rule, message = "unknown-key", _unread(group, parent, refused)
        hint = phrase("`{name}` was probably meant; rename it", name=first.name)
    else:
        rule, message = "section-misplaced", _unread(group, parent, refused)
        hint = _where(document, first)
    if not sure and not _is_for_training(document.root):
        hint = phrase("{hint}, unless a program of your own reads it there", hint=hint)
    strange = told(first.entry.key)
    return Finding(
        origin=document.key_origin(first.entry, first.path),
        rule=rule,
        severity=severity,
        message=message,
        hint=phrase("{strange}; {hint}", strange=strange, hint=hint) if strange else hint,
    )


def _unread(group: list[_Stray], parent: str, refused: bool) -> str:
    keys = ", ".join(f"`{stray.entry.key}`" for stray in group)
    if not parent:
        return phrase("nothing reads {keys} at the top level", keys=keys)
    if refused:
        return phrase("mindformers stops: `{parent}` has no {keys}", parent=parent, keys=keys)
    return phrase("nothing reads {keys} below `{parent}`", keys=keys, parent=parent)


def _where(document: Document, stray: _Stray) -> str:
    if stray.home == stray.name:
        if stray.entry.key == stray.name:
            return phrase("move it to the top level of the YAML")
        return phrase("`{name}` was probably meant; move it to the top level of the YAML", name=stray.name)
    home = document.root.entries.get(stray.home)
    if home is None:
        return phrase("write it below `{section}:` at the top level", section=stray.home)
    return phrase(
        "move it into `{section}` of line {line}; below it, indented, was probably meant",
        section=stray.home,
        line=document.line_of(home),
    )


def _empty_sections(document: Document, dialect: Dialect, told_of: set[str]) -> Iterator[Finding]:
    """PyNative training takes no section without content. Source: mindformers 2.0.0 and 2.1.0,
    pynative/config/utils.py, check_type."""
    stops = dialect is Dialect.PYNATIVE
    for name in PYNATIVE_SECTIONS if dialect is Dialect.PYNATIVE else GRAPH_SECTIONS:
        entry = document.root.entries.get(name)
        if entry is not None and name not in told_of and entry.value.kind == "scalar" and entry.value.scalar is None:
            yield Finding(
                origin=document.key_origin(entry, name),
                rule="section-empty",
                severity=Severity.ERROR if stops else Severity.WARNING,
                message=phrase("mindformers stops: this section is empty")
                if stops
                else phrase("this section is empty: it asks for nothing"),
                hint=phrase("indent its keys below it, or remove it"),
            )


def _oddly_indented(document: Document) -> Iterator[Finding]:
    """One finding for the keys of a mapping that are indented with what YAML takes for a part of their name."""
    told_of: set[str] = set()
    for path, entry in islice(_keys(document.root), _MAX_KEYS):
        names_operators = any(step in (*RECOMPUTE_KEYS, "select_module") for step in _parent(path).split("."))
        if indented_by(entry.key) and not names_operators and _parent(path) not in told_of:
            told_of.add(_parent(path))
            yield Finding(
                origin=document.key_origin(entry, path),
                rule="odd-indentation",
                severity=Severity.ERROR,
                message=phrase(
                    "`{key}` is not the key that it seems: {strange}",
                    key=entry.key.strip(),
                    strange=told(indented_by(entry.key)),
                ),
                hint=phrase("indent it and the lines like it with ordinary spaces"),
            )
