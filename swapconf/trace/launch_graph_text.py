"""GRAPH_BUILD_0_*.IR -> LAUNCH GRAPH: MindSpore's last graph, on which it decides the order of the kernels.

MindSpore prints it where the variables MS_DEV_SAVE_GRAPHS and MS_DEV_DUMP_IR_PASSES ask for the pass ``graph_build``. A
node is one line, which a constant may break, and lines below it that tell more::

    %7(CNode_330) = PrimFunc_Embedding(%6, %para30_weight, None, F32(2)) primitive_attrs: {stream_id: U32(0)} ...
        : (<Tensor[Int32], (2048)>, ...) -> (<Tensor[Float32], (2048, 256)>)
        # Fullname with scope: (Default/Embedding-op0)
        # In file .../gpt_model.py:433~527, 4~57/    def construct(/
        # In file .../mindspore/ops/auto_generate/gen_ops_def.py:8832, 11~32/    return cast_op(input, dtype)/

The last of these lines is the call that the node is, here one in a function of MindSpore. An input such as ``%6`` is a
node; parameters and constants are none. A file with several graphs is refused, as what runs between them is in none of
them. (MindSpore 2.7.2 to 2.10.0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from sys import intern

import numpy as np

from swapconf.files.table_lines import GARBLED, HEADER, TRUNCATED, Damage, lines, shown
from swapconf.trace.launch_graph import COMMUNICATION, ITEM, MAX_NODES, NO_NODE, RETURN, UNLAUNCHED, LaunchGraph
from swapconf.words.phrases import phrase

MAX_TEXT_BYTES = 2**30

_GRAPH = re.compile(r"subgraph @\S+\(.*\) \{")
_COUNT = re.compile(r"Total number of cnodes: (\d{1,9})")
_START = re.compile(r" *(?:%\d+\(|Return\()")
_TOLD = re.compile(r" +[:#] ")
_NAME = re.compile(r" +# Fullname with scope: \((.*)\)")
_SOURCE, _OF_MINDSPORE = " # In file ", "/mindspore/ops/"
_NODE = re.compile(r" *%(?P<own>\d{1,9})\(.*?\) = (?:PrimFunc_)?(?P<primitive>[\w.:]+)\(")
_RETURN = re.compile(r" *(?P<own>)(?P<primitive>Return)\(")
_MARK = re.compile(r'"[^"]*"|[()\[\]{}<>,]')
_INPUT = re.compile(r"%(\d{1,9})")
_ITEM = re.compile(r"I64\((\d{1,9})\)")
_UNIQUE = re.compile(r'[{ ]unique_id: "(\d+)"')
_FORWARD_UNIQUE = re.compile(r'[{ ]forward_unique_id: "(\d+)"')
_FUSION = re.compile(r"[{ ]fusion: I64\((\d+)\)")
_GROUP = re.compile(r'[{ ]group: "([^"]*)"')


def read_ir(path: str | Path) -> LaunchGraph:
    """The graph that MindSpore printed into a file. Raises SwapconfError with what is wrong, by line."""
    damage, nodes = Damage(path), _Nodes()
    for printed in _printed(path, damage):
        with damage.at(printed.line):
            nodes.add(printed)
    damage.refuse()
    if not nodes.is_ended:
        damage.add(TRUNCATED, phrase("nodes of the graph are missing"))
    damage.refuse()
    return nodes.graph()


@dataclass(frozen=True, slots=True)
class _Printed:
    """One node, not yet understood. ``text``: without what the lines below it tell, of which ``name`` is known, and
    whether the call stands in a function of MindSpore."""

    line: int
    text: str
    name: str
    is_of_function: bool


def _printed(path: str | Path, damage: Damage) -> Iterator[_Printed]:
    """The nodes of a file; what is wrong with the file as a whole becomes damage."""
    graphs = found = line = first = 0
    is_inside = is_told = is_of_function = False
    count: int | None = None
    head: list[str] = []
    name = ""
    for line, text in _bounded(path, damage):
        if not is_inside:
            is_inside = bool(_GRAPH.fullmatch(text))
            graphs += is_inside
            if graphs > 1:
                break
            if said := _COUNT.fullmatch(text):
                count = int(said[1])
        elif text == "}" or _START.match(text):
            if head:
                found += 1
                yield _Printed(first, " ".join(head), name, is_of_function)
            is_inside = text != "}"
            head, first, name, is_told, is_of_function = [text] if is_inside else [], line, "", False, False
        elif _TOLD.match(text):
            is_told = True
            if match := _NAME.fullmatch(text):
                name = match[1]
            elif _SOURCE in text:
                is_of_function = _OF_MINDSPORE in text
        elif not is_told:
            head.append(text)
    if graphs != 1:
        damage.add(HEADER, phrase("the file has several graphs") if graphs else phrase("the file has no graph"), line)
    elif is_inside or count not in (None, found):
        damage.add(TRUNCATED, phrase("nodes of the graph are missing"), line)


def _bounded(path: str | Path, damage: Damage) -> Iterator[tuple[int, str]]:
    left = MAX_TEXT_BYTES
    for line, text in lines(path, damage):
        left -= len(text)
        if left < 0:
            damage.add(GARBLED, phrase("the file has more than {size:,} bytes", size=MAX_TEXT_BYTES), line)
            damage.refuse()
        yield line, text


class _Nodes:
    """Grows by one printed node at a time; those that it reads from stand before it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._name: list[str] = []
        self._primitive: list[str] = []
        self._inputs: list[tuple[int, ...]] = []
        self._item: list[int] = []
        self._unique: list[str] = []
        self._forward_unique: list[str] = []
        self._fused: list[str | None] = []
        self._of_function: list[int] = []

    @property
    def is_ended(self) -> bool:
        return self._primitive[-1:] == [RETURN]

    def add(self, printed: _Printed) -> None:
        """Raises ValueError where it is no node."""
        text, count = printed.text, len(self._name)
        match = _NODE.match(text) or _RETURN.match(text)
        if match is None or match["own"] in self._numbers or count == MAX_NODES or self.is_ended:
            raise ValueError(phrase("{text} is not a node of a graph", text=shown(text.strip())))
        own, primitive = match["own"], match["primitive"]
        given, told = arguments(text, match.end())
        self._inputs.append(tuple(self._node(argument) for argument in given))
        self._numbers[own] = count
        self._name.append(intern(printed.name))
        self._primitive.append(intern(primitive))
        item = _ITEM.fullmatch(given[1]) if primitive == ITEM and len(given) > 1 else None
        self._item.append(int(item[1]) if item else NO_NODE)
        self._unique.append(_attribute(_UNIQUE, told))
        self._forward_unique.append(_attribute(_FORWARD_UNIQUE, told))
        is_fused = primitive in COMMUNICATION and _attribute(_FUSION, told) not in ("", "0")
        self._fused.append(_attribute(_GROUP, told) if is_fused else None)
        if printed.is_of_function and primitive not in UNLAUNCHED:
            self._of_function.append(count)

    def _node(self, argument: str) -> int:
        if not (match := _INPUT.fullmatch(argument)):
            return NO_NODE
        if match[1] not in self._numbers:
            raise ValueError(phrase("{text} is not a node before this one", text=shown(argument)))
        return self._numbers[match[1]]

    def graph(self) -> LaunchGraph:
        return LaunchGraph(
            name=tuple(self._name),
            primitive=tuple(self._primitive),
            inputs=tuple(self._inputs),
            item=np.array(self._item, dtype=np.int64),
            unique=tuple(self._unique),
            forward_unique=tuple(self._forward_unique),
            fused=tuple(self._fused),
            end=len(self._name) - 1,
            of_function=frozenset(self._of_function),
        )


def _attribute(pattern: re.Pattern[str], told: str) -> str:
    match = pattern.search(told)
    return intern(match[1]) if match else ""


def arguments(text: str, start: int) -> tuple[list[str], str]:
    """What stands between commas up to the parenthesis that closes the one before ``start``, and what follows it.
    Raises ValueError where there is none."""
    depth, found = 1, []
    for sign in _MARK.finditer(text, start):
        if sign[0] in "([{<":
            depth += 1
        elif sign[0] in ")]}>":
            depth -= 1
        if depth == 0 or (depth == 1 and sign[0] == ","):
            found.append(text[start : sign.start()].strip())
            start = sign.end()
        if depth == 0:
            return [argument for argument in found if argument], text[start:]
    raise ValueError(phrase("the inputs of {text} have no end", text=shown(text.strip())))
