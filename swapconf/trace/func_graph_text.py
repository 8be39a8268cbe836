"""VERBOSE_IR_FILES/*.IR -> FUNC GRAPHS: what MindSpore prints behind a pass, a graph and those that it calls.

A node is printed as in `launch_graph_text`; one that is a graph of its own calls it::

    %4(CNode_9) = call @seg_trans__anonymous__7(%3, %para2_weight)

Nodes and parameters are numbered as they stand in their graph. (MindSpore 2.7.2 to 2.10.0)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import NamedTuple

from swapconf.files.table_lines import HEADER, TRUNCATED, Damage, lines, shown
from swapconf.trace.launch_graph import RETURN
from swapconf.trace.launch_graph_text import arguments
from swapconf.trace.tensor import Tensor
from swapconf.words.phrases import phrase

CALL = "call"

_ENTRY = re.compile(r"# IR entry: @(\S+)")
_GRAPH = re.compile(r"subgraph @([^\s(]+)(?: parent: \[.*?\])?\((.*)\) \{")
_START = re.compile(r" {2}(?:%\d+\(|Return\()")
_NODE = re.compile(
    r" {2}(?:%(?P<own>\d{1,9})\(.*?\) = )?"
    r"(?:(?P<call>call) @(?P<callee>[^\s(]+)|(?:PrimFunc_)?(?P<primitive>[\w.:-]+))\("
)
_INPUT = re.compile(r"%(\d{1,9})")
_PARAMETER = re.compile(r"%para\d+_")
_ATTRIBUTE = re.compile(r'[{ ](\w+): ("[^"]*"|[^,{}()]*(?:\([^()]*\))?)')
_TYPES, _NAME = "      : ", "      # Fullname with scope: ("
_TENSOR = re.compile(r"Tensor\[(\w+)\]")
_SHAPE = re.compile(r"\((\d*(?:, -?\d+)*)\)")


class Kind(Enum):
    NODE = "a node of the same graph"
    PARAMETER = "a parameter of the graph, or of one around it"
    CONSTANT = "a constant"


class Argument(NamedTuple):
    """``number``: of the node or parameter; -1 of a parameter of a graph around. ``text``: of a constant."""

    kind: Kind
    number: int = -1
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FuncNode:
    """``name``: with its scope. ``callee``: the graph that a `CALL` calls, else "". ``attributes``: all that are
    printed, whatever they are attributes of. ``given``, ``made``: tensors, None for what is none."""

    name: str
    primitive: str
    callee: str
    arguments: tuple[Argument, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    given: tuple[Tensor | None, ...] = ()
    made: tuple[Tensor | None, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FuncGraph:
    """``nodes``: in the order in which they are printed, the Return last."""

    name: str
    parameters: tuple[str, ...]
    nodes: tuple[FuncNode, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FuncGraphs:
    """``entry``: the name of the one whose pass it was; the others are called by it, or stand around it."""

    entry: str
    graphs: Mapping[str, FuncGraph]


def read(path: str | Path) -> FuncGraphs:
    """All graphs of a file. Raises SwapconfError with what is wrong, by line."""
    damage, entry = Damage(path), ""
    found: dict[str, FuncGraph] = {}
    reader: _Graph | None = None
    line = 0
    for line, text in lines(path, damage):
        with damage.at(line):
            if reader is None:
                entry = match[1] if not entry and (match := _ENTRY.fullmatch(text)) else entry
                reader = _Graph(match) if (match := _GRAPH.fullmatch(text)) else None
            elif text == "}":
                if graph := reader.graph():
                    found[graph.name] = graph
                reader = None
            else:
                reader.take(text)
    if reader is not None:
        damage.add(TRUNCATED, phrase("nodes of the graph are missing"), line)
    elif entry not in found:
        damage.add(HEADER, phrase("the file has no graph"), line)
    damage.refuse()
    return FuncGraphs(entry=entry, graphs=found)


class _Graph:
    """Grows by a line at a time. ``head``: of a node that has begun; ``told``: what stands below it."""

    def __init__(self, match: re.Match[str]) -> None:
        self.name = intern(match[1])
        self._parameters = {text.strip(): number for number, text in enumerate(match[2].split(", ")) if text}
        self._numbers: dict[str, int] = {}
        self._nodes: list[FuncNode] = []
        self._head: list[str] = []
        self._name = self._types = ""

    def take(self, text: str) -> None:
        if _START.match(text):
            self._end()
            self._head = [text]
        elif text.startswith(_NAME):
            self._name = self._name or text[len(_NAME) : -1]
        elif text.startswith(_TYPES):
            self._types = self._types or text[len(_TYPES) :]
        elif self._head and not self._types and not self._name:
            self._head.append(text)

    def graph(self) -> FuncGraph | None:
        """None where it has no nodes, as a graph that stands around the printed one. Raises ValueError where its last
        node is no Return."""
        self._end()
        if not self._nodes:
            return None
        if self._nodes[-1].primitive != RETURN:
            raise ValueError(phrase("nodes of the graph are missing"))
        return FuncGraph(name=self.name, parameters=tuple(self._parameters), nodes=tuple(self._nodes))

    def _end(self) -> None:
        if not self._head:
            return
        text = " ".join(self._head)
        match = _NODE.match(text)
        if match is None:
            raise ValueError(phrase("{text} is not a node of a graph", text=shown(text.strip())))
        parts, told = arguments(text, match.end())
        given, made = types(self._types)
        node = FuncNode(
            name=intern(self._name),
            primitive=intern(match["call"] or match["primitive"]),
            callee=intern(match["callee"] or ""),
            arguments=tuple(map(self._argument, parts)),
            attributes={intern(key): intern(value.strip('"')) for key, value in _ATTRIBUTE.findall(told)},
            given=given,
            made=made,
        )
        if match["own"] is not None:
            self._numbers[match["own"]] = len(self._nodes)
        self._nodes.append(node)
        self._head, self._name, self._types = [], "", ""

    def _argument(self, text: str) -> Argument:
        if match := _INPUT.fullmatch(text):
            if match[1] not in self._numbers:
                raise ValueError(phrase("{text} is not a node before this one", text=shown(text)))
            return Argument(Kind.NODE, self._numbers[match[1]])
        if _PARAMETER.match(text):
            return Argument(Kind.PARAMETER, self._parameters.get(text, -1))
        return Argument(Kind.CONSTANT, text=intern(text))


@lru_cache(maxsize=4096)  # layers are alike: of 100,000 nodes some hundred texts differ
def types(text: str) -> tuple[tuple[Tensor | None, ...], tuple[Tensor | None, ...]]:
    """What a node is given and makes:

    ``(<Tensor[Float32], (1, 8)>, <Int64, NoShape>) -> (<Tuple[Tensor[Bool],..], TupleShape((8), ())>)``."""
    if not text.startswith("("):
        return (), ()
    items, rest = arguments(text, 1)
    _, arrow, after = rest.partition("(")
    made = arguments(after, 0)[0] if arrow else []
    return tuple(map(_tensor, items)), tuple(tensor for item in made for tensor in _tensors(item))


def _tensor(item: str) -> Tensor | None:
    tensors = _tensors(item)
    return tensors[0] if len(tensors) == 1 else None


def _tensors(item: str) -> tuple[Tensor | None, ...]:
    kinds = _TENSOR.findall(item)
    shapes = _SHAPE.findall(item[item.rfind("]") if item.startswith("<Tuple") else 0 :])
    if not kinds or len(shapes) < len(kinds):
        return (None,)
    return tuple(
        Tensor(intern(kind), tuple(map(int, shape.split(", "))) if shape else ())
        for kind, shape in zip(kinds, shapes, strict=False)
    )
