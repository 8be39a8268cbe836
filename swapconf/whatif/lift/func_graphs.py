"""EARLY GRAPH: the func graphs of a compilation at one of MindSpore's passes, as values that passes edit.

A value is a node, a parameter of a func graph, a constant or a func graph. A node belongs to one func graph and may
read nodes of the func graphs around it, which are free variables then. What a node is called in MindSpore's IR stands
in `primitive`; a call has the primitive `CALL`, and what it calls as its first input: a `Callee`, or a node that gives
one (the second output of a K graph is the closure of its gradients).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from swapconf.trace.launch_graph import DEPEND, ITEM, RETURN, STATE, TUPLE
from swapconf.trace.postorder import postorder

CALL, PARTIAL = "call", "Partial"
K_GRAPH, GRADIENTS = "recompute_k_graph", "recompute_grad_graph"  # flags of func graphs
NOT_AGAIN = "not_recompute_k_graph"
OFFLOAD, PREFETCH, RECOMPUTE = "offload", "backward_prefetch", "recompute"  # attributes of primitives
YES, NO = "Bool(1)", "Bool(0)"
MIRROR = "_MirrorOperator"  # adds up gradients over ranks
VIRTUAL = ("_VirtualAssignAdd", "_VirtualDiv", "_VirtualAdd", "_VirtualPipelineEnd")
_OF_PRIMITIVE = re.compile(r"▸(PrimFunc_|[A-Z])\w*_\d+$")
_NUMBER = re.compile(r"I64\((-?\d+)\)")
_SHAPE = re.compile(r"<Tensor\[\w+\], \(([^)]*)\)>")
_OUTPUTS = re.compile(r"Tensor\[\w+\](?:\*(\d+))?")
_PARAMETER_NUMBER = re.compile(r"^para\d+_")


class Monad(Enum):
    MEMORY = "UMonad"
    IO = "IOMonad"


@dataclass(frozen=True, slots=True)
class Parameter:
    """``graph``: the name of the func graph; ``name``: as it is printed, with its number."""

    graph: str
    name: str

    @property
    def plain(self) -> str:
        """Without the number, which another compilation counts otherwise."""
        return _PARAMETER_NUMBER.sub("", self.name)

    @property
    def monad(self) -> Monad | None:
        kind = self.name.rpartition("_")[2].removeprefix("▸")
        return {"u": Monad.MEMORY, "io": Monad.IO}.get(kind)


@dataclass(frozen=True, slots=True)
class Constant:
    text: str

    @classmethod
    def of(cls, number: int) -> Constant:
        return cls(f"I64({number})")

    @property
    def monad(self) -> Monad | None:
        return next((monad for monad in Monad if monad.value in self.text), None)

    @property
    def number(self) -> int | None:
        match = _NUMBER.fullmatch(self.text)
        return int(match[1]) if match else None

    @property
    def numbers(self) -> list[int]:
        return [int(number) for number in _NUMBER.findall(self.text)]

    @property
    def is_shortened(self) -> bool:
        """Not all of its elements are printed, so that two that print alike need not be equal."""
        return "value=[...]" in self.text


@dataclass(frozen=True, slots=True)
class Callee:
    """A func graph as a value."""

    name: str


@dataclass(eq=False, slots=True)
class CNode:
    """Attributes:
    name: In MindSpore's IR; not unique. ``operator``: what its cell calls the primitive; "" for none.
    attributes: Of the primitive; ``marks``: what a pass has set on the node itself.
    unique, forward_unique: Number of the node; of that whose gradient it is. "" for none.
    types: As printed: ``(types of inputs) -> (types of outputs)``.
    closures: The func graphs that a call of a node may call.
    """

    primitive: str
    inputs: list[Value]
    graph: EarlyFuncGraph
    name: str = ""
    scope: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    unique: str = ""
    forward_unique: str = ""
    types: str = ""
    closures: tuple[str, ...] = ()
    operator: str = ""

    @property
    def index(self) -> int | None:
        """Which element a TupleGetItem takes."""
        place = self.inputs[1] if self.primitive == ITEM and len(self.inputs) > 1 else None
        return place.number if isinstance(place, Constant) else None

    @property
    def made(self) -> str:
        return self.types.partition(" -> ")[2]

    @property
    def monad(self) -> Monad | None:
        if self.primitive == STATE:
            return Monad.IO if Monad.IO.value in self.made else Monad.MEMORY
        return self.inputs[0].monad if self.primitive == DEPEND and not isinstance(self.inputs[0], Callee) else None

    @property
    def outputs(self) -> int:
        """How many tensors are in the tuple that it makes; 0 where it makes no tuple."""
        if not self.made.startswith("(<Tuple["):
            return 0
        inner = self.made[len("(<Tuple[") : self.made.index("], TupleShape")]
        return sum(int(count or 1) for count in _OUTPUTS.findall(inner))

    @property
    def shape(self) -> tuple[int, ...] | None:
        match = _SHAPE.search(self.made)
        return tuple(int(size) for size in match[1].split(",") if size.strip()) if match else None

    def like(self, inputs: Iterable[Value], graph: EarlyFuncGraph) -> CNode:
        """A new node that differs in these."""
        return CNode(
            self.primitive,
            list(inputs),
            graph,
            self.name,
            self.scope,
            self.attributes,
            self.marks,
            self.unique,
            self.forward_unique,
            self.types,
            self.closures,
            self.operator,
        )


Value: TypeAlias = "CNode | Parameter | Constant | Callee"
Users: TypeAlias = "Mapping[CNode, Sequence[tuple[CNode, int]]]"  # who reads a node, and at which place


@dataclass(eq=False, slots=True)
class EarlyFuncGraph:
    """``parameters``: their names; ``flags``: of the func graph, such as `K_GRAPH`."""

    name: str
    parameters: tuple[str, ...]
    flags: frozenset[str] = frozenset()
    end: CNode = field(init=False)

    def __post_init__(self) -> None:
        self.end = CNode(RETURN, [], self)

    @property
    def result(self) -> Value:
        return self.end.inputs[0]

    @property
    def is_k_graph(self) -> bool:
        return K_GRAPH in self.flags

    @property
    def is_of_cell(self) -> bool:
        """Not of a primitive alone."""
        return not _OF_PRIMITIVE.search(self.name)

    @property
    def closure(self) -> Callee | None:
        """The func graph of its gradients, which a K graph or a forward pass returns behind its value; in a Partial
        once free variables have become parameters."""
        if isinstance(self.result, CNode) and self.result.primitive == TUPLE and self.result.inputs:
            last = self.result.inputs[-1]
            if isinstance(last, CNode) and last.primitive == PARTIAL:
                last = last.inputs[0]
            return last if isinstance(last, Callee) else None
        return None


@dataclass(eq=False, slots=True)
class EarlyGraph:
    """``graphs``: by name; ``entry``: the name of that of the training step."""

    graphs: dict[str, EarlyFuncGraph]
    entry: str

    @property
    def forward(self) -> EarlyFuncGraph:
        """The forward pass of a micro-batch, which is called: the func graph that is not of a cell recomputed, hands on
        the closure of its gradients, and is called by the training step."""
        calls = [node for node in self.nodes() if node.primitive == CALL and node.graph.name == self.entry]
        called = [self.graphs[node.inputs[0].name] for node in calls if isinstance(node.inputs[0], Callee)]
        return next(graph for graph in called if graph.closure is not None)

    @property
    def backward(self) -> EarlyFuncGraph:
        closure = self.forward.closure
        assert closure is not None
        return self.graphs[closure.name]

    def nodes(self) -> list[CNode]:
        """All that lead to the end of the training step, from there on."""
        return met(self, [self.graphs[self.entry].end])

    def users(self) -> dict[CNode, list[tuple[CNode, int]]]:
        found: dict[CNode, list[tuple[CNode, int]]] = {}
        for node in self.nodes():
            for place, given in enumerate(node.inputs):
                if isinstance(given, CNode):
                    found.setdefault(given, []).append((node, place))
        return found

    def called(self, node: Value) -> EarlyFuncGraph | None:
        """The func graph that a call names."""
        callee = node.inputs[0] if isinstance(node, CNode) and node.primitive == CALL else None
        return self.graphs.get(callee.name) if isinstance(callee, Callee) else None

    def k_graph(self, node: Value) -> EarlyFuncGraph | None:
        """The K graph that a call names."""
        called = self.called(node)
        return called if called is not None and called.is_k_graph else None

    def reached(self) -> list[EarlyFuncGraph]:
        return list(dict.fromkeys(node.graph for node in self.nodes()))


def met(module: EarlyGraph | None, ends: Iterable[CNode], *, first_first: bool = False) -> list[CNode]:
    """Nodes that lead to some, and with ``module`` those of the func graphs that these call: each before its inputs.
    ``first_first``: in which order inputs are followed."""
    found, stack = dict[CNode, None](), list(reversed(list(ends)))
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found[node] = None
        for given in reversed(node.inputs) if first_first else node.inputs:
            if isinstance(given, CNode):
                stack.append(given)
            elif isinstance(given, Callee) and module is not None and given.name in module.graphs:
                stack.append(module.graphs[given.name].end)
    return list(found)


def sorted_from(end: CNode, *, first_first: bool = True, module: EarlyGraph | None = None) -> list[CNode]:
    """`TopoSort`: each node behind its inputs; with ``module`` through calls, too. ``first_first``: in which order
    inputs are followed."""
    return postorder([end], lambda node: _followed(node, first_first, module))


def own_nodes(graph: EarlyFuncGraph, module: EarlyGraph | None = None) -> list[CNode]:
    """Those of a func graph itself, as `sorted_from`."""
    return [node for node in sorted_from(graph.end, module=module) if node.graph is graph]


def seen_through(value: Value, primitives: Collection[str]) -> Value:
    """What is given first to nodes of these, one behind another."""
    while isinstance(value, CNode) and value.primitive in primitives:
        value = value.inputs[0]
    return value


def _followed(node: CNode, first_first: bool, module: EarlyGraph | None) -> Iterator[CNode]:
    for given in node.inputs if first_first else reversed(node.inputs):
        if isinstance(given, CNode):
            yield given
        elif isinstance(given, Callee) and module is not None and given.name in module.graphs:
            yield module.graphs[given.name].end
