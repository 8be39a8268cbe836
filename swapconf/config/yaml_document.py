"""TEXT -> NODES: a YAML file as plain values that remember where they stand. Nothing in the file is executed.

Reads what PyYAML's ``safe_load`` reads (YAML 1.1, as mindformers does), but in three bounded steps: events (depth,
size and alias counts are checked before anything is built), PyYAML's composer, values. Hostile input ends in one
finding, within a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from swapconf.config.nodes import Document, Entry, Node, Scalar
from swapconf.files.opening import read_bytes
from swapconf.words.findings import Finding, Origin, Severity, SwapconfError
from swapconf.words.phrases import phrase

if TYPE_CHECKING:
    Loader: TypeAlias = yaml.SafeLoader
else:
    Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _WordLoader(Loader):
    """Reads a word of a command line: ``1e-6`` is a number there, as for mindformers' own script; in a file it is text
    (YAML 1.1 wants ``1.0e-6``)."""


_WordLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$", re.ASCII),
    list("-+.0123456789"),
)

MAX_BYTES = 100_000  # the largest template of mindformers has 17 KB
MAX_DEPTH = 60
MAX_EVENTS = 50_000
MAX_EXPANDED_NODES = 50_000
MAX_DIGITS = 40
_TOO_DEEP = "exceeded maximum nesting depth"  # libyaml 0.2.6: 1,000 levels that it reads ahead, before any event

_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
_MERGE = "tag:yaml.org,2002:merge"
_SAFE_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in (
        "null",
        "bool",
        "int",
        "float",
        "binary",
        "timestamp",
        "omap",
        "pairs",
        "set",
        "str",
        "seq",
        "map",
        "merge",
    )
}


def read_text(path: str | Path) -> str:
    """The text of a file. Raises SwapconfError with one finding when it cannot be read as UTF-8 text."""
    name = str(path)
    try:
        data = read_bytes(path, MAX_BYTES)
    except FileNotFoundError:
        raise missing(name) from None
    except IsADirectoryError:
        raise _refusal(name, "file-not-found", phrase("this is a folder"), phrase("name a YAML file in it")) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refusal(
            name,
            "file-not-found",
            phrase("cannot be read ({reason})", reason=reason),
            phrase("check the path and its permissions"),
        ) from None
    if len(data) > MAX_BYTES:
        raise _refusal(
            name,
            "yaml-too-large",
            phrase("larger than {size:,} bytes", size=MAX_BYTES),
            phrase("a training YAML has a few hundred lines; give that file"),
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise _refusal(
            name,
            "yaml-encoding",
            phrase("byte 0x{byte:02x} is not UTF-8", byte=data[error.start]),
            phrase("save the file as UTF-8"),
            line,
            column,
        ) from None


def missing(file: str) -> SwapconfError:
    """What is said of a file that is not there."""
    return _refusal(file, "file-not-found", phrase("there is no such file"), phrase("check the path"))


def beginning(path: str | Path) -> str:
    """What can be read of a file that is no text, or too large, to see what it is for. Raises OSError."""
    return read_bytes(path, MAX_BYTES).decode("utf-8", "replace")


def parse(text: str, file: str) -> Document:
    """The document in ``text``. Raises SwapconfError when there is no mapping to work with."""
    root = _composed(text, file)
    if root is None:
        raise _refusal(
            file,
            "yaml-empty",
            phrase("the file holds no configuration"),
            phrase("a training YAML starts with sections such as `model:` and `swap_config:`"),
        )
    if not isinstance(root, yaml.MappingNode):
        raise _refusal(
            file,
            "yaml-not-mapping",
            phrase("the top level is a {kind}, not a mapping", kind=_KINDS[type(root)]),
            phrase("write sections as `name: value` lines"),
            *_place(root),
        )
    builder = _Builder(file)
    node = builder.node(root, "")
    return Document(file=file, root=node, findings=tuple(builder.findings), text=text)


def parse_value(text: str) -> Any:
    """The value that a word of a command line stands for, bounded like a file. Raises SwapconfError when it is none."""
    root, builder = _composed(text, "(value)", _WordLoader), _Builder("(value)")
    node = builder.node(root, "") if root is not None else None
    if builder.findings:
        raise SwapconfError(builder.findings)
    return node.plain() if node is not None else None


def _composed(text: str, file: str, loaded_by: type[Loader] = Loader) -> yaml.Node | None:
    try:
        _check_events(text, file)
        loader = loaded_by(text)
        try:
            root: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        if _TOO_DEEP in str(error):
            _check_events(text, file, yaml.SafeLoader)  # which tells the levels before the deepest one
        raise _syntax_refusal(error, file, text) from None
    except UnicodeEncodeError:  # a word of a command line need not be text
        raise _refusal(file, "yaml-encoding", phrase("holds half a character"), phrase("write it as UTF-8")) from None
    except RecursionError:
        raise _refusal(
            file, "yaml-too-deep", phrase("nested too deeply"), phrase("keep below {levels} levels", levels=MAX_DEPTH)
        ) from None
    return root


def _check_events(text: str, file: str, loaded_by: type[yaml.SafeLoader] = Loader) -> None:
    """Depth and number of events, before the composer recurses or allocates."""
    depth = count = documents = 0
    for event in yaml.parse(text, Loader=loaded_by):
        count += 1
        depth += isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent))
        depth -= isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent))
        documents += isinstance(event, yaml.DocumentStartEvent)
        mark = event.start_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        if depth > MAX_DEPTH:
            raise _refusal(
                file,
                "yaml-too-deep",
                phrase("nested deeper than {levels} levels", levels=MAX_DEPTH),
                phrase("flatten it: no mindformers section needs this"),
                *place,
            )
        if count > MAX_EVENTS:
            raise _refusal(
                file,
                "yaml-too-large",
                phrase("more than {values:,} values", values=MAX_EVENTS),
                phrase("a training YAML has a few hundred lines; give that file"),
                *place,
            )
        if documents > 1:
            raise _refusal(
                file,
                "yaml-syntax",
                phrase("a second document starts here"),
                phrase("mindformers reads one document per file; remove the `---`"),
                *place,
            )


class _Builder:
    """PyYAML nodes to ours: aliases stay shared, merge keys are resolved, scalars become values."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        # by id of the parser's node: an alias is the very node of its anchor, and equal ones stand elsewhere
        self._done: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()

    def node(self, raw: yaml.Node, path: str) -> Node:
        return self._sized(raw, path)[0]

    def _sized(self, raw: yaml.Node, path: str) -> tuple[Node, int]:
        """The node and how many nodes it has once every alias is written out."""
        key = id(raw)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            raise self._refuse(
                raw,
                path,
                "yaml-alias-bomb",
                phrase("an alias stands inside the value that it names"),
                phrase("write the value out"),
            )
        self._open.add(key)
        if raw.tag not in _SAFE_TAGS:
            self.findings.append(
                _finding(
                    self.file,
                    "yaml-tag",
                    phrase("mindformers' safe loader refuses the tag {tag!r}", tag=raw.tag),
                    phrase("write a plain value; for a tuple write a list: [0, 1]"),
                    *_place(raw),
                    path,
                )
            )
        if isinstance(raw, yaml.MappingNode):
            built, size = self._mapping(raw, path)
        elif isinstance(raw, yaml.SequenceNode):
            children = [self._sized(item, f"{path}[{index}]") for index, item in enumerate(raw.value)]
            built = Node("list", *_place(raw), items=tuple(child for child, _ in children), file=self.file)
            size = 1 + sum(weight for _, weight in children)
        else:
            assert isinstance(raw, yaml.ScalarNode)
            built, size = self._scalar(raw, path), 1
        if size > MAX_EXPANDED_NODES:
            raise self._refuse(
                raw,
                path,
                "yaml-alias-bomb",
                phrase("aliases blow this up to more than {values:,} values", values=MAX_EXPANDED_NODES),
                phrase("write out the few values that are needed"),
            )
        self._open.discard(key)
        self._done[key] = built, size
        return built, size

    def _mapping(self, raw: yaml.MappingNode, path: str) -> tuple[Node, int]:
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        size = 1
        for raw_key, raw_value in raw.value:
            if raw_key.tag == _MERGE:
                for source, weight in self._merge_sources(raw_value, path):
                    size += weight
                    for name, entry in source.entries.items():
                        merged.setdefault(name, entry)
                continue
            name = self._key(raw_key, path)
            line, column = _place(raw_key)
            value, weight = self._sized(raw_value, f"{path}.{name}" if path else name)
            size += weight
            if name in entries:
                self._stands_twice(entries[name], Entry(name, line, column, value), path)
            entries[name] = Entry(name, line, column, value, self.file)
        return Node("mapping", *_place(raw), entries={**merged, **entries}, file=self.file), size

    def _stands_twice(self, first: Entry, last: Entry, path: str) -> None:
        is_same = repr(first.value.plain()) == repr(last.value.plain())  # the training runs as meant; 1 is not True
        told = phrase("the key `{key}` stands twice, with the value of line {line}", key=last.key, line=first.line)
        if not is_same:
            told = phrase(
                "the key `{key}` stands twice; PyYAML silently drops the value of line {line}",
                key=last.key,
                line=first.line,
            )
        place = (last.line, last.column, f"{path}.{last.key}" if path else last.key)
        found = _finding(self.file, "yaml-duplicate-key", told, phrase("keep one of the two"), *place)
        self.findings.append(replace(found, severity=Severity.WARNING) if is_same else found)

    def _merge_sources(self, raw: yaml.Node, path: str) -> Iterator[tuple[Node, int]]:
        sources = raw.value if isinstance(raw, yaml.SequenceNode) else [raw]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise self._refuse(
                    source,
                    path,
                    "yaml-syntax",
                    phrase("`<<` merges something that is not a mapping"),
                    phrase("merge an alias of a mapping: `<<: *name`"),
                )
            yield self._sized(source, path)

    def _key(self, raw: yaml.Node, path: str) -> str:
        if not isinstance(raw, yaml.ScalarNode):
            raise self._refuse(
                raw,
                path,
                "yaml-syntax",
                phrase("a {kind} cannot be a key", kind=_KINDS[type(raw)]),
                phrase("use plain text as key"),
            )
        return str(raw.value)

    def _scalar(self, raw: yaml.ScalarNode, path: str) -> Node:
        line, column = _place(raw)
        text = raw.value if not raw.style else None  # libyaml says "" for plain, PyYAML None
        return Node("scalar", line, column, scalar=self._value(raw, path), text=text, file=self.file)

    def _value(self, raw: yaml.ScalarNode, path: str) -> Scalar:
        if raw.tag in _NUMBERS and len(raw.value) > MAX_DIGITS:
            self.findings.append(
                _finding(
                    self.file,
                    "yaml-huge-number",
                    phrase("a number of {characters} characters", characters=len(raw.value)),
                    phrase("no setting takes such a number"),
                    *_place(raw),
                    path,
                )
            )
            return None
        construct: Any = _CONSTRUCTORS.get(raw.tag)
        if construct is None:
            return str(raw.value)  # dates and binary are text to us: no section we read has them
        try:
            value: Scalar = construct(_SCALARS, raw)
        except (ValueError, OverflowError, IndexError, KeyError, AttributeError, yaml.YAMLError):  # as PyYAML's own do
            self.findings.append(
                _finding(
                    self.file,
                    "yaml-tag",
                    phrase(
                        "mindformers' safe loader cannot read {text!r} as {tag!r}", text=raw.value[:40], tag=raw.tag
                    ),
                    phrase("leave out the tag, or write a value of its kind"),
                    *_place(raw),
                    path,
                )
            )
            return str(raw.value)
        return value

    def _refuse(self, raw: yaml.Node, path: str, rule: str, message: str, hint: str) -> SwapconfError:
        line, column = _place(raw)
        return SwapconfError([*self.findings, _finding(self.file, rule, message, hint, line, column, path)])


_KINDS = {
    yaml.SequenceNode: phrase("list"),
    yaml.MappingNode: phrase("mapping"),
    yaml.ScalarNode: phrase("single value"),
}
_SCALARS = yaml.constructor.SafeConstructor()
_CONSTRUCTORS = {
    f"tag:yaml.org,2002:{name}": getattr(yaml.constructor.SafeConstructor, f"construct_yaml_{name}")
    for name in ("null", "bool", "int", "float", "str")
}


def _place(raw: yaml.Node) -> tuple[int, int]:
    return raw.start_mark.line + 1, raw.start_mark.column + 1


def _finding(file: str, rule: str, message: str, hint: str, line: int = 0, column: int = 0, path: str = "") -> Finding:
    origin = Origin(file=file, line=line, column=column, path=path)
    return Finding(origin=origin, rule=rule, severity=Severity.ERROR, message=message, hint=hint)


def _refusal(file: str, rule: str, message: str, hint: str, line: int = 0, column: int = 0) -> SwapconfError:
    return SwapconfError([_finding(file, rule, message, hint, line, column)])


def _syntax_refusal(error: yaml.YAMLError, file: str, text: str) -> SwapconfError:
    from swapconf.config import syntax_hints  # most texts are YAML

    marks = [mark for name in ("problem_mark", "context_mark") if (mark := getattr(error, name, None)) is not None]
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    places = [(mark.line + 1, mark.column + 1) for mark in marks] or [(0, 0)]
    line, column, hint = syntax_hints.of(problem, places, text)
    return _refusal(file, "yaml-syntax", phrase("not valid YAML: {problem}", problem=problem), hint, line, column)
