"""TRACE + FUSED KERNELS -> TRACE of operators: each operator inside a fused kernel is a kernel of its own.

So whoever asks what a run computed where sees what it would see with ``jit_level: O0``. What an operator hands to
others of its kernel alone takes no memory: its block has no bytes. Events are counted ``scale`` times finer, to have
room for the operators of one launch. A kernel whose outputs are not those that are known of it stays closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from swapconf.trace.blocks import Block, Blocks
from swapconf.trace.columns import FUSED
from swapconf.trace.func_graph_text import Kind
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.opened_graph import opened_graph
from swapconf.trace.trace import PART, Kernel, Task, Trace, without_number
from swapconf.upstream.primitives import CAST
from swapconf.upstream.scopes import in_layer

_FORWARD = "Default"  # how the names of the forward pass begin


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """``trace``: with a kernel for each operator; ``closed``: with fused kernels. ``parts``: by event of a fused kernel
    those of its operators there, in their order. ``names``: by fused kernel what its operators are named. ``makers``:
    by tensor of the closed trace the name of the operator in a fused kernel that makes it. Event e of the closed trace
    is event ``e * scale`` of the opened one."""

    trace: Trace
    closed: Trace
    parts: Mapping[int, range] = field(default_factory=dict)
    makers: Mapping[int, str] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scale: int = 1

    @cached_property
    def launch_graph(self) -> LaunchGraph | None:
        """That of the closed trace with a node for each operator; None where it is not known. Raises SwapconfError."""
        graph = self.closed.launch_graph
        if graph is None or not self.names:
            return graph
        return opened_graph(graph, {name: self.closed.fused_kernels[name] for name in self.names}, self.names)


def opened(trace: Trace) -> Opened:
    """The trace itself where it has no fused kernels, or nothing is known of their inside."""
    known = trace.fused_kernels if trace.has_graph else {}
    inside = {task.event: known[task.name] for task in trace.tasks if task.name in known and _fits(task, known)}
    if not inside:
        return Opened(trace=trace, closed=trace)
    scale = max(len(kernel.operators) for kernel in inside.values()) + 2
    parts = {
        event: range(event * scale + 1, event * scale + 1 + len(kernel.operators)) for event, kernel in inside.items()
    }
    kernels, tasks, names = _launches(trace, inside, parts, scale)
    makers = _makers(tasks, scale)
    found = replace(
        trace,
        blocks=Blocks.of(_blocks(trace, tasks, parts, makers, scale)),
        kernels=tuple(kernels),
        tasks=tuple(tasks),
        launch_graph_file="",
        fused_kernels_file="",
        known_inside=None,
        closed=trace,
    )
    return Opened(trace=found, closed=trace, parts=parts, makers=makers, names=names, scale=scale)


def _launches(
    trace: Trace, inside: Mapping[int, FusedKernel], parts: Mapping[int, range], scale: int
) -> tuple[list[Kernel], list[Task], dict[str, list[str]]]:
    names = _Names(trace)
    cells = _Cells()
    told: dict[str, list[str]] = {}
    launched = (task for task in trace.tasks if task.is_kernel)
    kernels: list[Kernel] = []
    tasks = [_finer(task, scale) for task in trace.tasks if task.event not in inside]
    for kernel in trace.kernels:
        task = None if kernel.is_event else next(launched)
        if task is None or task.event not in inside:
            kernels.append(kernel)
            if task is not None:
                cells.made(task.outputs, task.name.rpartition("/")[0])
            continue
        operators = inside[task.event].operators
        scopes = cells.of(task, inside[task.event])
        named = [names.of(kernel, place, operator, scopes[place]) for place, operator in enumerate(operators)]
        made = [_kernel(kernel, name, operator) for name, operator in zip(named, operators, strict=True)]
        told[kernel.name] = [one.name for one in made]
        kernels += made
        tasks += _tasks(task, inside[task.event], parts[task.event], named, scale)
    return kernels, sorted(tasks, key=lambda task: task.event), told


def _makers(tasks: Iterable[Task], scale: int) -> dict[int, str]:
    return {
        made // scale: task.name
        for task in tasks
        for made in task.outputs
        if task.event % scale and not made % scale and made not in task.inputs
    }


def _fits(task: Task, known: Mapping[str, FusedKernel]) -> bool:
    """Whether the kernel reads and writes what its operators do."""
    kernel = known[task.name]
    made = tuple(kernel.operators[output].made for output in kernel.outputs)
    given = max((item for operator in kernel.operators for item in operator.given), default=-1)
    return made == task.output_tensors and len(made) == len(task.outputs) and given < len(task.inputs)


class _Cells:
    """The scopes of operators. What MindSpore expands by its own graphs, as AssignAdd in a router, has lost
    its cells (``Default/expand_AssignAdd``): it stands in those of what it reads in the forward pass of a layer. A Cast
    may have been put in, and then never had any."""

    def __init__(self) -> None:
        self._scopes: dict[int, str] = {}  # by tensor, of who made it in the forward pass

    def made(self, tensors: Iterable[int], scope: str) -> None:
        known = scope if scope.startswith(f"{_FORWARD}/") and in_layer(scope) is not None else ""
        self._scopes |= dict.fromkeys(tensors, known)

    def of(self, task: Task, kernel: FusedKernel) -> list[str]:
        """[operators]"""
        found: list[str] = []
        for operator in kernel.operators:
            scope = operator.name.rpartition("/")[0]
            if scope == _FORWARD and operator.primitive != CAST:
                near = [found[place] for place in operator.read]
                near += [self._scopes.get(task.inputs[place], "") for place in operator.given]
                scope = next(filter(None, near), scope)
            found.append(scope)
        for output, tensor in zip(reversed(kernel.outputs), reversed(task.outputs), strict=True):
            self.made((tensor,), found[output])
        return found


class _Names:
    """A name of its own for each operator, the same one in each step."""

    def __init__(self, trace: Trace) -> None:
        self._found: dict[tuple[str, str, int], str] = {}
        self._next: dict[str, int] = defaultdict(int)
        for name in {task.name for task in trace.tasks if task.is_kernel}:
            base, number = without_number(name), int(name.rpartition("-op")[2])
            self._next[base] = max(self._next[base], number + 1)

    def of(self, kernel: Kernel, place: int, operator: FusedOperator, scope: str) -> str:
        key = kernel.graph, kernel.name, place
        if key not in self._found:
            base = f"{scope}/{operator.primitive}"
            self._found[key] = f"{base}-op{self._next[base]}"
            self._next[base] += 1
        return self._found[key]


def _kernel(kernel: Kernel, name: str, operator: FusedOperator) -> Kernel:
    """One that has no cells is named like a fused kernel: it may be a gradient all the same."""
    constants = tuple(f"ValueNode {text}" for text in operator.constants)
    scope, _, own = name.rpartition("/")
    own = f"{FUSED}{own}" if "-" not in scope else f"/{own}"
    return replace(kernel, name=f"{scope}{own}", primitive=operator.primitive, inputs=constants)


def _finer(task: Task, scale: int) -> Task:
    return replace(
        task,
        event=task.event * scale,
        inputs=tuple(tensor * scale for tensor in task.inputs),
        outputs=tuple(tensor * scale for tensor in task.outputs),
    )


def _tasks(task: Task, kernel: FusedKernel, events: range, names: Iterable[str], scale: int) -> Iterator[Task]:
    """What is handed out is the block of the kernel; what is not, one that is born with the operator. Each reads in its
    own order, whether that comes from inside of the kernel or from outside: what is computed again may be fused with
    more or less than what was computed first, and is to be told by what it reads."""
    made = list(events)
    for output, tensor in zip(reversed(kernel.outputs), reversed(task.outputs), strict=True):
        made[output] = tensor * scale
    given = dict(enumerate(task.input_tensors))
    for event, name, operator, tensor in zip(events, names, kernel.operators, made, strict=True):
        inputs, tensors = [], []
        for kind, place, _ in operator.tensors:
            is_inside = kind is Kind.NODE
            inputs.append(made[place] if is_inside else task.inputs[place] * scale)
            tensors.append(kernel.operators[place].made if is_inside else given.get(place))
        yield Task(
            event=event,
            name=name,
            inputs=tuple(inputs),
            outputs=(tensor,),
            attributes=(*task.attributes, (PART, "")),
            input_tensors=tuple(shown for shown in tensors if shown is not None),
            output_tensors=() if operator.made is None else (operator.made,),
        )


def _blocks(
    trace: Trace, tasks: Iterable[Task], parts: Mapping[int, range], makers: Mapping[int, str], scale: int
) -> list[Block]:
    """Those of the trace, named after the operators that make them, and one of no bytes for each tensor inside a fused
    kernel."""
    readers: dict[int, list[int]] = defaultdict(list)
    maker: dict[int, Task] = {}
    inside = {event: events for events in parts.values() for event in events}
    for task in tasks:
        if task.event in inside:
            for tensor in task.inputs:
                readers[tensor].append(task.event)
            for tensor in task.outputs:
                maker.setdefault(tensor, task)
    rows = [_block(block, makers.get(block.start, block.node), readers, maker, parts, scale) for block in trace.blocks]
    known = {row.start for row in rows}
    like = rows[-1]
    rows += [
        replace(
            like,
            start=tensor,
            end=max(inside[tensor]) + 1,
            address=0,
            size_bytes=0,
            stream=0,
            kind="Kernel",
            task=tensor,
            task_name=task.name,
            node=task.name,
            users=tuple(readers[tensor]),
            is_persistent=False,
        )
        for tensor, task in maker.items()
        if tensor not in known
    ]
    rows.sort(key=lambda row: row.start)
    return list(_with_sums(rows))


def _block(
    block: Block,
    node: str,
    readers: Mapping[int, list[int]],
    maker: Mapping[int, Task],
    parts: Mapping[int, range],
    scale: int,
) -> Block:
    tensor = block.start * scale
    users: list[int] = []
    for user in block.users:
        if user not in parts:
            users.append(user * scale)
            continue
        mine = [event for event in readers.get(tensor, ()) if event in parts[user]]
        users += mine or [parts[user][-1]]
    task = None if block.task is None else block.task * scale
    if block.task is not None and block.task in parts:
        task = maker[tensor].event if tensor in maker else parts[block.task][-1]
    end = None if block.end is None else block.end * scale
    return replace(block, start=tensor, end=end, task=task, node=node, users=tuple(users))


def _with_sums(rows: Iterable[Block]) -> Iterator[Block]:
    """What was in use behind a block of no bytes is what was in use before it, on the same side."""
    used = peak = 0
    for row in rows:
        if not row.size_bytes:
            yield replace(row, used_bytes=used, pool_peak_bytes=peak)
            continue
        if not row.on_host:
            used, peak = row.used_bytes, row.pool_peak_bytes
        yield row
