"""OPT_SUBSTEP_*.IR, OPT_PASS_*.IR -> EARLY GRAPH: all func graphs of a compilation, as printed behind a pass.

MindSpore prints them where MS_DEV_SAVE_GRAPHS is 1 and MS_DEV_DUMP_IR_PASSES has a part of the name of the file; that
also has it print each step of its optimizers. Of a func graph, flags come first, then the nodes::

    subgraph attr:
    recompute_k_graph: 1
    subgraph @7_▸construct_3 parent: [subgraph @1_construct_9](%para12_▸x, %para13_▸u) {
      %2(CNode_5) = Load(%para12_▸x, %para13_▸u) cnode_primal_attrs: {unique_id: "1234"}
          : (<Ref[Tensor[Float32]], (64)>, <UMonad, NoShape>) -> (<Tensor[Float32], (64)>)
          # Scope: (Default/network-Net/norm-RmsNorm)
      %3(CNode_6) = PrimFunc_Cast($(@1_construct_9:CNode_2), I64(45)) primitive_attrs: {recompute: Bool(1)}

An input is a node (``%2``), a parameter, a node of a func graph around (``$(@graph:name)``), a func graph or a
constant. Names are not unique: of several the last one is meant (in dumps of two families only nodes of the optimizer
share theirs). (MindSpore 2.7.2 to 2.10.0)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from swapconf.files.table_lines import HEADER, TRUNCATED, Damage, lines, shown
from swapconf.trace.launch_graph_text import arguments
from swapconf.whatif.lift.func_graphs import CALL, Callee, CNode, Constant, EarlyFuncGraph, EarlyGraph, Parameter, Value
from swapconf.words.phrases import phrase

_ENTRY = "# IR entry: @"
_GRAPH = re.compile(r"subgraph @(\S+?)(?: parent: \[subgraph @.*?\])?\((.*)\) \{")
_START = re.compile(r" {2}(?:%(?P<own>\d+)\((?P<name>.*?)\) = |(?=Return\())")
_CALLED = re.compile(
    r"call @(?P<callee>[^\s(]+)"
    r"|(?P<node>%\d+|\$\(@.*?\))(?:\[(?P<closures>.*?)\])?(?=\()"
    r"|(?P<primitive>ClassType\[[^\]]*\]|[^\s(]+)"
)
_SECTION = re.compile(r"(primitive_attrs|cnode_attrs|cnode_primal_attrs): \{")
_FREE = re.compile(r"\$\(@(.*?):(.*)\)")
_OWN = re.compile(r"%(\d+)")
_PARAMETER = re.compile(r"%?(para\d+_\S*)")
_CLOSURE = re.compile(r"@+([^@\s,\]()]+)")
_INSTANCE = re.compile(r"\{instance name: (.*?)\}")
_SCOPE, _TYPES, _TOLD = "      # Scope: (", "      : ", ("      # ", "      : ")
_ATTRIBUTES, _MARKS, _PRIMAL = "primitive_attrs", "cnode_attrs", "cnode_primal_attrs"


@dataclass(slots=True)
class _Printing:
    """A func graph of which the nodes are read, but not yet what they read: that may be printed later."""

    graph: EarlyFuncGraph
    given: dict[CNode, list[str]] = field(default_factory=dict)
    own: dict[str, CNode] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    last: CNode | None = None

    def take(self, text: str) -> None:
        """Raises ValueError."""
        if _START.match(text):
            self.end()
            self.text = [text]
        elif text.startswith(_TOLD):
            self.end()
            if self.last is not None:
                if text.startswith(_TYPES):
                    self.last.types = self.last.types or text.removeprefix(_TYPES)
                elif text.startswith(_SCOPE):
                    self.last.scope = text[len(_SCOPE) : -1]
        elif self.text:
            self.text.append(text.strip())

    def end(self) -> None:
        """Of a node whose inputs and attributes may stand in several lines. Raises ValueError."""
        if not self.text:
            return
        text, self.text = " ".join(self.text), []
        start = _START.match(text)
        match = _CALLED.match(text, start.end()) if start else None
        if start is None or match is None or text[match.end() : match.end() + 1] != "(":
            raise ValueError(phrase("{text} is not a node of a graph", text=shown(text.strip())))
        given, told = arguments(text, match.end() + 1)
        called = f"@{match['callee']}" if match["callee"] else match["node"]
        found = {section[1]: dict(_pairs(told, section.end())) for section in _SECTION.finditer(told)}
        numbers = found.get(_MARKS, {}) | found.get(_PRIMAL, {})
        node = CNode(
            CALL if called else match["primitive"].removeprefix("PrimFunc_"),
            [],
            self.graph,
            start["name"] or "",
            attributes=found.get(_ATTRIBUTES, {}),
            marks=frozenset(found.get(_MARKS, ())),
            operator=instance[1] if (instance := _INSTANCE.search(told)) else "",
            unique=numbers.get("unique_id", "").strip('"'),
            forward_unique=numbers.get("forward_unique_id", "").strip('"'),
            closures=tuple(_CLOSURE.findall(match["closures"] or "")),
        )
        self.given[node] = [called, *given] if called else given
        if start["own"] is not None:
            self.own[start["own"]] = node
        else:
            self.graph.end = node
        self.last = node


def read(path: str | Path) -> EarlyGraph:
    """Raises SwapconfError where the file is not of this form."""
    damage = Damage(path)
    entry, found, flags, is_flag = "", list[_Printing](), list[str](), False
    current, line = None, 0
    for line, text in lines(path, damage):
        with damage.at(line):
            if current is not None:
                if text != "}":
                    current.take(text)
                    continue
                current.end()
                current = None
            elif text.startswith(_ENTRY):
                entry = text.removeprefix(_ENTRY)
            elif text.startswith("subgraph attr:"):
                flags, is_flag = [], True
            elif text.startswith("subgraph instance:"):
                is_flag = False
            elif match := _GRAPH.fullmatch(text):
                names = tuple(name.strip().removeprefix("%") for name in match[2].split(", ")) if match[2] else ()
                current = _Printing(EarlyFuncGraph(match[1], names, frozenset(flags)))
                found.append(current)
            elif is_flag and ": " in text:
                flags.append(text.partition(": ")[0])
    if current is not None:
        damage.add(TRUNCATED, phrase("nodes of the graph are missing"), line)
    elif entry not in {printing.graph.name for printing in found}:
        damage.add(HEADER, phrase("the file has no graph"), line)
    damage.refuse()
    return _linked(found, entry)


def _pairs(text: str, start: int) -> Iterable[tuple[str, str]]:
    for item in arguments(text, start)[0]:
        name, _, value = item.partition(": ")
        yield name, value


def _linked(found: list[_Printing], entry: str) -> EarlyGraph:
    graphs = {printing.graph.name: printing.graph for printing in found}
    named = {(node.graph.name, node.name): node for printing in found for node in printing.given}

    def value(text: str, printing: _Printing) -> Value:
        if (match := _OWN.fullmatch(text)) and match[1] in printing.own:
            return printing.own[match[1]]
        if match := _FREE.fullmatch(text):
            parameter = _PARAMETER.fullmatch(match[2])
            return Parameter(match[1], parameter[1]) if parameter else named.get((match[1], match[2]), Constant(text))
        if match := _PARAMETER.fullmatch(text):
            return Parameter(printing.graph.name, match[1])
        return Callee(text[1:]) if text.startswith("@") and " " not in text else Constant(text)

    for printing in found:
        for node, given in printing.given.items():
            node.inputs[:] = [value(text, printing) for text in given]
    return EarlyGraph(graphs, entry)
