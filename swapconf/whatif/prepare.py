"""TRACE -> BASELINE: once per trace, linear in its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.models.cells import EXPERTS
from swapconf.trace.columns import FUSED, Flags, Ints, Kernels, LayerRows, Reads
from swapconf.trace.launch_graph import DEPEND, NO_NODE, STATE, LaunchGraph
from swapconf.trace.lifetimes import CONSTANT_VALUE, NEVER, TICKS, Lifetimes
from swapconf.trace.phases import Phase, of_layers, phase_of_name
from swapconf.trace.trace import Block, Kernel, Task, Trace
from swapconf.upstream.primitives import COPY, VIEWS
from swapconf.upstream.scopes import EXTRA_BLOCK, GRADIENTS, InLayer, in_layer
from swapconf.whatif.baseline import Baseline
from swapconf.whatif.homes import dispatched, states_read, weights_read
from swapconf.whatif.laid_out import GRADIENT_VIEW
from swapconf.whatif.layer_passes import adopted, passes, rehomed
from swapconf.whatif.streams import released
from swapconf.words.phrases import phrase

ALIGNMENT = 512
_OF_EXPERTS = f".{EXPERTS}.weight"
_SEND, _SIGNALS = "Send", "StreamSend"  # a message to another rank; what a stream has done so far, to another stream


def prepare(trace: Trace, recomputes: bool = False) -> Baseline:
    """``recomputes``: the run is known to have been asked to. Raises ValueError where the trace has no graph, or swaps
    or recomputes already."""
    kernels = [kernel for kernel in trace.kernels if not kernel.is_event]
    tasks = [task for task in trace.tasks if task.is_kernel]
    _refuse(trace, kernels, tasks, recomputes)
    blocks = sorted((block for block in trace.blocks if not block.on_host), key=lambda block: block.start)
    row = {block.start: index for index, block in enumerate(blocks)}
    maker = _makers(tasks, row)
    places = _places(kernel.name for kernel in kernels)
    stream = np.array([kernel.stream for kernel in kernels], dtype=np.int64)
    reads = _reads(kernels, tasks, row, maker, stream)
    layers, layer = _layers(places)
    behind = of_layers(tasks)
    backward = _backward(kernels, reads, maker, np.array([task.event in behind for task in tasks]))
    reads = _through_views(reads, maker, backward)
    by_name = layer
    layer, cell = adopted(kernels, layer, [place.cell if place else "" for place in places], backward, reads, maker)
    has_name = np.array([kernel.scope != "Default" for kernel in kernels])
    named = np.where(has_name, by_name, layer)
    weights = weights_read(tasks, trace.blocks, reads)
    layer = rehomed(kernels, layer, cell, backward, reads, maker, weights)
    return Baseline(
        blocks=_in_ticks(lifetimes(trace)),
        maker=maker,
        host_bytes=_host_bytes(tasks, row),
        kernels=Kernels(
            name=tuple(kernel.name for kernel in kernels),
            layer=layer,
            cell=tuple(dispatched(layer, cell, ~has_name & ~backward, reads, maker)),
            primitive=tuple(task.primitive for task in tasks),
            stream=stream,
            backward=backward,
            passing=passes(kernels, layer, cell, backward, reads, maker, weights),
            before=_before(maker, blocks, len(kernels)),
        ),
        layers=layers,
        reads=reads,
        steps=trace.num_steps,
        misnamed=frozenset(np.flatnonzero(layer != named).tolist()),
        weights={kernel: row[read[0]] for kernel, read in weights.items() if len(read) == 1},
        states=states_read(tasks, blocks),
        turned=frozenset(index for index, task in enumerate(tasks) if _is_turned(task)),
        in_state=_in_state(trace.launch_graph, kernels),
        of_function=_of_function(trace.launch_graph, kernels),
        awaits_send=frozenset(_await_sends(trace.kernels)),
        joined=_joined(kernels),
        adds_up_experts=_adds_up_experts(blocks, tasks, stream),
        unread_literals=_unread_literals(trace, blocks),
        lasting_host_bytes=trace.lasting_host_bytes,
    )


def _refuse(trace: Trace, kernels: Sequence[Kernel], tasks: Sequence[Task], recomputes: bool) -> None:
    """Raises ValueError where this is no baseline."""
    if not tasks:
        raise ValueError(trace.why_no_graph)
    if any(kernel.primitive == COPY and phase_of_name(kernel.name) is not Phase.OPTIMIZER for kernel in kernels):
        raise ValueError(phrase("the trace swaps already"))
    if recomputes or any("recompute_Default" in kernel.name for kernel in kernels):  # kernels tell of cells alone
        raise ValueError(phrase("the trace recomputes already"))


def _places(names: Iterable[str]) -> list[InLayer | None]:
    by_scope: dict[str, InLayer | None] = {}
    places = []
    for name in names:
        scope = name.rpartition("/")[0]
        if scope not in by_scope:
            by_scope[scope] = in_layer(scope)
        places.append(by_scope[scope])
    return places


def _layers(places: Sequence[InLayer | None]) -> tuple[LayerRows, Ints]:
    """The layers, and for each place the row of its layer; -1 outside of them."""
    decoders, extras = (
        1 + max((place.index for place in places if place and place.is_extra == is_extra), default=-1)
        for is_extra in (False, True)
    )
    names = (*map(str, range(decoders)), *(f"{EXTRA_BLOCK}{index}" for index in range(extras)))
    rows = [-1 if place is None else place.index + decoders * place.is_extra for place in places]
    return LayerRows(names, np.arange(len(names)) >= decoders), np.array(rows, dtype=np.int64)


def _makers(tasks: Sequence[Task], row: dict[int, int]) -> Ints:
    maker = np.full(len(row), -1, dtype=np.int64)
    for index, task in enumerate(tasks):
        for output in task.outputs:
            if output not in task.inputs and maker[row[output]] < 0:
                maker[row[output]] = index
    return maker


def _is_turned(task: Task) -> bool:
    """A view that shows dimensions in another order."""
    if task.primitive not in VIEWS or not task.input_tensors or not task.output_tensors:
        return False
    shown, seen = task.input_tensors[0].shape, task.output_tensors[0].shape
    return shown != seen and sorted(shown) == sorted(seen)


def _in_state(graph: LaunchGraph | None, kernels: Sequence[Kernel]) -> frozenset[int] | None:
    """Kernels of whose output a node makes a value that waits for a state."""
    if graph is None:
        return None
    names = set()
    for node, primitive in enumerate(graph.primitive):
        if primitive == DEPEND:
            value, awaited = graph.inputs[node][:2]
            if value != NO_NODE and awaited != NO_NODE and graph.primitive[awaited] == STATE:
                names.add(graph.name[value])
    return frozenset(index for index, kernel in enumerate(kernels) if kernel.name in names)


def _of_function(graph: LaunchGraph | None, kernels: Sequence[Kernel]) -> frozenset[int]:
    """Kernels of `LaunchGraph.of_function`."""
    names = {graph.name[node] for node in graph.of_function} if graph is not None else set()
    return frozenset(index for index, kernel in enumerate(kernels) if kernel.name in names)


def _await_sends(kernels: Iterable[Kernel]) -> Iterator[int]:
    """Kernels of the main stream in front of which it waits for a stream that has last sent something."""
    last, sent = dict[int, str](), dict[str, str]()
    number, awaited = -1, set[str]()
    for kernel in kernels:
        if kernel.primitive == _SIGNALS:
            sent[kernel.event] = last.get(kernel.stream, "")
        elif kernel.is_event and kernel.stream == 0:
            awaited.add(sent.get(kernel.event, ""))
        elif not kernel.is_event:
            number, last[kernel.stream] = number + 1, kernel.primitive
            if kernel.stream == 0 and _SEND in awaited:
                yield number
            if kernel.stream == 0 or kernel.primitive == _SEND:
                awaited.clear()


def _joined(kernels: Sequence[Kernel]) -> frozenset[int]:
    """Kernels that are of one row of the order of execution with the one in front of them."""
    return frozenset(
        number for number, (first, second) in enumerate(pairwise(kernels), 1) if first.index == second.index
    )


def _adds_up_experts(blocks: Iterable[Block], tasks: Sequence[Task], stream: Ints) -> bool:
    """Whether communication reads a weight of experts, or what is summed up of its gradient."""
    weights = {block.start for block in blocks if _OF_EXPERTS in block.node}
    return any(weights.intersection(tasks[index].inputs) for index in np.flatnonzero(stream != 0).tolist())


def _unread_literals(trace: Trace, blocks: Sequence[Block]) -> tuple[int, ...]:
    constants = trace.blocks.starts(CONSTANT_VALUE) if trace.closed is None else set[int]()
    unread = constants.difference(*(task.inputs for task in trace.tasks))
    return tuple(index for index, block in enumerate(blocks) if block.start in unread and block.size_bytes == ALIGNMENT)


def _host_bytes(tasks: Sequence[Task], row: dict[int, int]) -> Ints:
    host_bytes = np.zeros(len(row), dtype=np.int64)
    for task in tasks:
        for tensor, output in zip(task.outputs, task.output_tensors, strict=False):
            host_bytes[row[tensor]] = -(-(output.size_bytes or 0) // ALIGNMENT) * ALIGNMENT
    return host_bytes


def _before(maker: Ints, blocks: Sequence[Block], count: int) -> Ints:
    last = max((block.end or block.start for block in blocks), default=0) + 2
    first = np.full(count + 1, last, dtype=np.int64)
    for index, block in zip(maker.tolist(), blocks, strict=True):
        if index >= 0 and block.start < first[index]:
            first[index] = block.start
    return np.asarray(np.minimum.accumulate(first[::-1])[::-1])


def _reads(kernels: Sequence[Kernel], tasks: Sequence[Task], row: dict[int, int], maker: Ints, stream: Ints) -> Reads:
    """All uses of blocks that kernels made."""
    faces: dict[int, list[tuple[int, str, tuple[int, ...]]]] = {}
    uses: list[tuple[int, int, int]] = []
    for index, (kernel, task) in enumerate(zip(kernels, tasks, strict=True)):
        for tensor, shape in _inputs(task):
            if maker[row[tensor]] >= 0:
                uses.append((row[tensor], index, _face(faces[tensor], kernel, shape)))
        for place, output in enumerate(task.outputs):
            shape = task.output_tensors[place].shape if place < len(task.output_tensors) else ()
            faces.setdefault(output, []).append((index, kernel.output, shape))
    uses.sort()
    block, reader, face = (np.array(column, dtype=np.int64) for column in zip(*uses, strict=True))
    return Reads(block=block, kernel=reader, until=_until(block, reader, maker, stream), face=face, via=face)


def _inputs(task: Task) -> list[tuple[int, tuple[int, ...] | None]]:
    """Ids with shapes; strings on the host have no id, so that shapes are only known where the counts agree."""
    if len(task.inputs) == len(task.input_tensors):
        shapes: dict[int, tuple[int, ...] | None] = {}
        for tensor, given in zip(task.inputs, task.input_tensors, strict=True):
            shapes.setdefault(tensor, given.shape)
        return list(shapes.items())
    return [(tensor, None) for tensor in dict.fromkeys(task.inputs)]


def _face(candidates: Sequence[tuple[int, str, tuple[int, ...]]], kernel: Kernel, shape: tuple[int, ...] | None) -> int:
    """By name inside one graph; a gradient sees the forward pass through a tuple, so there the shape tells."""
    if len(candidates) == 1:
        return candidates[0][0]
    named = [index for index, name, _ in candidates if name in kernel.inputs]
    if named:
        return named[-1]
    like = [index for index, _, given in candidates if given == shape]
    return (like or [index for index, _, _ in candidates])[-1]


def _until(block: Ints, reader: Ints, maker: Ints, stream: Ints) -> Ints:
    source = maker[block]
    return released(reader, stream[reader], source, stream[source], np.arange(len(stream)))


def _backward(kernels: Sequence[Kernel], reads: Reads, maker: Ints, behind: Flags) -> Flags:
    """Gradients by name, and what is fused, which has none, if it reads gradients; by position what is computed again
    for them: it is read by gradients only, and other gradients came between it and its inputs, or it computes what
    another kernel of its cell computes for the forward pass. So is a view that only gradients make. Gradients of what
    no layer made (of the loss by itself, zeros) come between nothing: MindSpore may run them before the end of the
    forward pass (measured with 2.7.2: DeepSeek-V3). ``behind``: [kernels] see `of_layers`."""
    backward = np.array([kernel.name.startswith(GRADIENTS) for kernel in kernels])
    is_fused = np.array([FUSED in kernel.name for kernel in kernels])
    rows = np.flatnonzero(is_fused[reads.kernel])
    for row in rows[np.argsort(reads.kernel[rows], kind="stable")].tolist():
        backward[reads.kernel[row]] |= backward[maker[reads.block[row]]]
    gradients = np.concatenate([[0], np.cumsum(backward & behind)])
    readers: dict[int, list[int]] = {}
    latest = np.full(len(kernels), -1, dtype=np.int64)
    for face, block, kernel in zip(reads.face.tolist(), reads.block.tolist(), reads.kernel.tolist(), strict=True):
        readers.setdefault(face, []).append(kernel)
        latest[kernel] = max(latest[kernel], int(maker[block]))
    for index in np.flatnonzero(~backward)[::-1].tolist():
        later = [reader for reader in readers.get(index, ()) if reader > index]
        between = gradients[index] > gradients[latest[index] + 1] or kernels[index].primitive == GRADIENT_VIEW
        if later and between and all(backward[reader] for reader in later):
            backward[index] = True
    for index in _twins(kernels, reads, backward):
        later = [reader for reader in readers.get(index, ()) if reader > index]
        backward[index] = bool(later) and all(backward[reader] for reader in later)
    return backward


def _twins(kernels: Sequence[Kernel], reads: Reads, backward: Flags) -> Iterator[int]:
    """Kernels of the forward pass that compute the same in one cell, of which others read one."""
    given: dict[int, list[int]] = {}
    forward = set[int]()
    for face, block, kernel in zip(reads.face.tolist(), reads.block.tolist(), reads.kernel.tolist(), strict=True):
        given.setdefault(kernel, []).append(block)
        if not backward[kernel]:
            forward.add(face)
    groups: dict[tuple[str, str, tuple[int, ...]], list[int]] = {}
    for kernel, blocks in given.items():
        scope = kernels[kernel].name.rpartition("/")[0]
        if not backward[kernel] and in_layer(scope) is not None:
            groups.setdefault((scope, kernels[kernel].primitive, tuple(blocks)), []).append(kernel)
    for group in groups.values():
        if len(group) > 1 and forward.intersection(group):
            yield from group


def _through_views(reads: Reads, maker: Ints, backward: Flags) -> Reads:
    """A view that a gradient makes for another one shows what it sees itself."""
    below = {
        (block, kernel): face
        for block, kernel, face in zip(reads.block.tolist(), reads.kernel.tolist(), reads.face.tolist(), strict=True)
    }
    face = reads.face.copy()
    shown = (face >= 0) & backward[face] & (face != maker[reads.block])
    for row in np.flatnonzero(shown).tolist():
        block, seen = int(reads.block[row]), int(face[row])
        while seen != maker[block] and backward[seen]:
            seen = below[block, seen]
        face[row] = seen
    return replace(reads, face=face)


def _in_ticks(live: Lifetimes) -> Lifetimes:
    """The same blocks, with room for new events between two of the trace's."""
    return replace(live, start=live.start * TICKS, end=np.where(live.end == NEVER, NEVER, live.end * TICKS))
