"""TRACE -> PHASE of each launch: forward, recomputed, backward or optimizer. The one place that decides it.

Names do not tell: MindSpore 2.9.0 puts ``recompute_`` before the names of all kernels of a recomputed cell, the forward
ones, too, and before none where single primitives are recomputed. So every tensor gets a number that stands for how it
was computed: the primitive, its constants and the numbers of its inputs. A launch whose result has a number that was
there before in the step, and that only the backward pass reads (through other such launches or at once), is recomputed.
A copy, a view, and an AllGather of what was sliced before do not change what a tensor is. Where MindSpore changes it in
another way, the place tells: in a layer, behind a gradient, the primitive and shapes of a forward launch of the same
cell, and only the backward pass reads it.

A gradient is named ``Gradients/...``, but for what MindSpore fuses (``jit_level: O1``) or puts together of several:
that has no cell, and is told by what it reads. What a cell computes by hand for its gradient (``bprop``) bears the
cell's name, is new, and only the backward pass reads it. The optimizer is told by the cells in which it stands. Other
kernels that MindSpore inserts have no cells (``Default/Cast-op3``), either; if nothing else tells, they belong to the
phase in which they run. What the model recomputes without being asked (casts of a norm) is recomputed, too.

Measured with MindSpore 2.9.0: a step of Llama, Qwen3 or DeepSeek-V3 with recompute has as many operations more than one
without as are found here, to 0.1 %.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from enum import Enum

from swapconf.trace.columns import FUSED
from swapconf.trace.lifetimes import CONSTANT_VALUE
from swapconf.trace.trace import PART, POINT_TO_POINT, Kernel, Task, Tensor, Trace
from swapconf.trace.waits import waits_of
from swapconf.upstream.primitives import CAST, COPY, VIEWS
from swapconf.upstream.scopes import GRADIENTS, in_layer

_OPTIMIZER = re.compile(r"(?:^|/)(?:optimizer|learning_rate|clip_grad_norm)-\w+(?:/|$)")


class Phase(Enum):
    FORWARD = "forward"
    RECOMPUTED = "recomputed"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


_ORDER = tuple(Phase)  # as a step comes to them
Users = Sequence[tuple[int, tuple[int, ...]]]  # by launch its own event, and those that use what it writes


def of_step(trace: Trace) -> tuple[Phase, ...]:
    """The phase of each launch of `Trace.step_tasks`; empty where the trace has no graph. That of a fused kernel is the
    last one of its operators that stand in cells, if their inside is known."""
    if not trace.has_graph:
        return ()
    inside = trace.opened
    if not inside.parts:
        return _of_launches(trace)
    steps = zip(inside.trace.step_tasks, inside.trace.step_phases, strict=True)
    found = {task.event: ("-" in task.scope, _ORDER.index(phase)) for task, phase in steps}
    launches = [inside.parts.get(task.event, (task.event * inside.scale,)) for task in trace.step_tasks]
    return tuple(_ORDER[max(found[event] for event in events)[1]] for events in launches)


def _of_launches(trace: Trace) -> tuple[Phase, ...]:
    """Each by itself, fused or not."""
    tasks = trace.step_tasks
    named = _by_name(tasks)
    users = _users(trace, tasks)
    first = _first_of_its_kind(trace, tasks)
    serving = {task.event for task in trace.tasks if task.name.startswith(GRADIENTS)} | _without_a_name(tasks, first)
    late = _read_by_backward_only(users, serving)
    known = _known(tasks, first, late)
    turning = _turning(tasks, named, users)
    found = _phases(tasks, named, _recomputed(tasks, known, users, serving), late, turning)
    twins = {task.event for task, phase in zip(tasks, found, strict=True) if phase is Phase.RECOMPUTED} - serving
    return _phases(tasks, named, _recomputed(tasks, known, users, serving, twins), late, turning)


def _phases(
    tasks: Sequence[Task], named: Sequence[Phase | None], again: Sequence[bool], late: Sequence[bool], turning: Set[int]
) -> tuple[Phase, ...]:
    """``again``: it is recomputed; ``late``: only the backward pass reads it; ``turning``: see `_turning`."""
    found = []
    current = direction = Phase.FORWARD
    forward: set[tuple[str, str, tuple[object, ...]]] = set()
    for task, phase, is_again, is_late in zip(tasks, named, again, late, strict=True):
        form = task.scope, task.primitive, _made(task)
        if is_again:
            found.append(Phase.RECOMPUTED)
        elif phase is Phase.FORWARD and is_late:
            is_twin = direction is Phase.BACKWARD and form in forward and in_layer(task.scope) is not None
            found.append(Phase.RECOMPUTED if is_twin else direction)
        else:
            if phase is not None:
                current = phase
                direction = phase if task.event in turning else direction  # MindSpore runs some others in between
            found.append(current)
        if found[-1] is Phase.FORWARD:
            forward.add(form)
    return tuple(found)


def _turning(tasks: Sequence[Task], named: Sequence[Phase | None], users: Users) -> set[int]:
    """Events that tell whether layers run forward or backward: gradients, launches in layers, and what leads to those.
    The optimizer, and the sum of the losses of micro-batches, which MindSpore runs in the backward pass, do not; nor do
    gradients of what no layer made in front of further layers (measured with 2.7.2: that of the loss in the forward
    pass of DeepSeek-V3)."""
    found: set[int] = set()
    behind, is_before_layers = of_layers(tasks), False
    for task, phase, (event, readers) in zip(reversed(tasks), reversed(named), reversed(users), strict=True):
        is_gradient, is_inside = phase is Phase.BACKWARD, in_layer(task.scope) is not None
        if is_gradient and event not in behind and is_before_layers:
            continue
        if is_gradient or is_inside:
            is_before_layers = not is_gradient
        if phase is not Phase.OPTIMIZER and (is_gradient or is_inside or not found.isdisjoint(readers)):
            found.add(event)
    return found


def of_layers(tasks: Iterable[Task]) -> set[int]:
    """Events of what stands in layers, or reads what they made, those of other stages, too, through others or at once.
    What one writes in place, as an optimizer the parameters, it has not made."""
    found: set[int] = set()
    made: set[int] = set()
    for task in tasks:
        is_of_layer = in_layer(task.scope) is not None or task.primitive in POINT_TO_POINT
        if is_of_layer or not made.isdisjoint(task.inputs):
            found.add(task.event)
            made |= set(task.outputs).difference(task.inputs)
    return found


def phase_of_name(name: str) -> Phase | None:
    """As far as the full name of a kernel alone tells: gradients and the optimizer. What else a cell computes is
    forward, or the same recomputed, which only a whole trace tells apart; None for a name without cells."""
    if name.startswith(GRADIENTS):
        return Phase.BACKWARD
    if _OPTIMIZER.search(name):
        return Phase.OPTIMIZER
    return Phase.FORWARD if in_layer(name) is not None or "-" in name.rpartition("/")[0] else None


def phases(trace: Trace) -> dict[int, Phase]:
    """The phase of the launch that made each tensor, by the tensor's id, which is the event at which its block is born.

    Empty where the trace has no graph."""
    if not trace.has_graph:
        return {}
    kernels = [kernel for kernel in trace.kernels if not kernel.is_event]
    step = [kernel for kernel in trace.step if not kernel.is_event]
    of_kernel = {(kernel.graph, kernel.name): phase for kernel, phase in zip(step, trace.step_phases, strict=True)}
    tasks = (task for task in trace.tasks if task.is_kernel)
    found: dict[int, Phase] = {}
    for kernel, task in zip(kernels, tasks, strict=True):
        for tensor in task.outputs:
            found.setdefault(tensor, of_kernel[kernel.graph, kernel.name])
    return found


def _without_a_name(tasks: Sequence[Task], first: Sequence[int]) -> set[int]:
    """Events of gradients that stand in no cell. They read what a gradient made, through others of no cell or at once,
    and are fused, or read what a layer computed again, too: the product that MindSpore puts together of several for one
    weight, as of the halves of a layer with ``fine_grain_interleave``. ``first``: see `_first_of_its_kind`."""
    found: set[int] = set()
    of_gradients: set[int] = set()  # tensors that gradients made, and what stands in no cell made of them
    again: set[int] = set()  # the same of what layers computed again
    for index, task in enumerate(tasks):
        is_lost = "-" not in task.scope
        is_behind = task.name.startswith(GRADIENTS) or (is_lost and not of_gradients.isdisjoint(task.inputs))
        is_beside = is_lost and not again.isdisjoint(task.inputs)
        is_fused = FUSED in task.name or (PART, "") in task.attributes
        if is_behind and is_lost and task.primitive not in VIEWS and (is_fused or is_beside):
            found.add(task.event)
        # not what it writes in place, as a view and the sum of a weight's gradients do; a copy back is no gradient
        new = set(task.outputs).difference(task.inputs) if task.primitive != COPY else set()
        if is_behind:
            of_gradients |= new
        elif is_beside or (first[index] != index and in_layer(task.scope) is not None):
            again |= new
    return found


def _by_name(tasks: Sequence[Task]) -> list[Phase | None]:
    """None: the name does not tell."""
    wrapper = _wrapper(tasks)
    return [_named(task, wrapper) for task in tasks]


def _wrapper(tasks: Sequence[Task]) -> str:
    """The cell that holds network and optimizer: ``Default/network-MFPipelineWithLossScaleCell``. What stands in it
    directly belongs to neither."""
    for task in tasks:
        if not task.name.startswith(GRADIENTS) and (match := _OPTIMIZER.search(task.scope)):
            return task.scope[: match.start()]
    return "Default"


def _named(task: Task, wrapper: str) -> Phase | None:
    if task.name.startswith(GRADIENTS):
        return None if task.scope == "Gradients/Default" else Phase.BACKWARD
    if task.scope in (wrapper, "Default"):
        return None
    return Phase.OPTIMIZER if _OPTIMIZER.search(task.scope) else Phase.FORWARD


def _known(tasks: Sequence[Task], first: Sequence[int], late: Sequence[bool]) -> list[bool]:
    """By launch: something in the step was computed in the same way before, and not all of it for the backward pass
    alone, as a cast of a weight that is read there and made in each micro-batch. Or it is at once, for the forward
    pass: what waits for nothing that comes late is computed again beside that, or in front of it."""
    served = {turn for index, turn in enumerate(first) if not late[index]}
    found = [turn != index and turn in served for index, turn in enumerate(first)]
    for index, turn in enumerate(first):
        same_cell = tasks[turn].scope == tasks[index].scope and in_layer(tasks[turn].scope) is not None
        if turn != index and same_cell and late[turn] and not late[index]:
            found[turn] = True
    return found


def _first_of_its_kind(trace: Trace, tasks: Sequence[Task]) -> list[int]:
    """By launch the first one in the step that computed the same."""
    kernels, waits = waits_of(trace)
    numbers: dict[Hashable, int] = {}
    value: dict[int, int] = {}
    slices: dict[int, tuple[int, Tensor]] = {}  # of what, by the number of the slice
    constants = trace.blocks.starts(CONSTANT_VALUE)
    firsts: dict[int, int] = {}
    found = []
    for index, (kernel, task) in enumerate(zip(kernels, tasks, strict=True)):
        inputs = tuple(value.setdefault(item, -item - 1) for item in task.inputs if item not in constants)
        if task.primitive == COPY:
            _copy(kernel, task, [(kernels[item], tasks[item]) for item in waits[index]], value)
            found.append(index)
            continue
        turn = index if task.primitive in POINT_TO_POINT else -1
        key = (task.primitive, _constants(kernel), _made(task), inputs, turn)
        number = numbers.setdefault(key, len(numbers) << 8)
        found.append(firsts.setdefault(number, index))
        if task.primitive in VIEWS and inputs:
            value.update(dict.fromkeys(task.outputs, inputs[0]))
        elif (gathered := _gathered(task, inputs, slices)) is not None:
            value.update(dict.fromkeys(task.outputs, gathered))
        else:
            if task.primitive == "StridedSlice" and inputs and task.input_tensors:
                slices.setdefault(number, (inputs[0], task.input_tensors[0]))
            value.update((made, number + place) for place, made in enumerate(task.outputs))
    return found


def _made(task: Task) -> tuple[object, ...]:
    """What a launch makes, with its types only where it changes one: inside of a fused kernel an operator computes in
    float32 where nobody else reads it (MindSpore, pass ConvertBFloat16, whose casts are merged away)."""
    return task.output_tensors if task.primitive == CAST else tuple(tensor.shape for tensor in task.output_tensors)


def _copy(kernel: Kernel, task: Task, waited_for: Sequence[tuple[Kernel, Task]], value: dict[int, int]) -> None:
    """What comes back to the device is what went to the host: the first copy out that the copy back waits for."""
    out = next((other for copy, other in waited_for if copy.copies_to_host), None)
    if not kernel.copies_to_host and out is not None and out.inputs and task.outputs:
        value[task.outputs[0]] = value[out.inputs[0]]


def _gathered(task: Task, inputs: Sequence[int], slices: Mapping[int, tuple[int, Tensor]]) -> int | None:
    """The number of what an AllGather puts together again: a tensor that is sliced, or that is whole in a group of one
    (recompute_slice_activation keeps the output of a layer like this)."""
    if task.primitive != "AllGather" or len(inputs) != 1 or len(task.output_tensors) != 1:
        return None
    (made,) = task.output_tensors
    if task.input_tensors == (made,):
        return inputs[0]
    whole, tensor = slices.get(inputs[0], (None, None))
    return whole if tensor == made else None


def _constants(kernel: Kernel) -> tuple[str, ...]:
    """As the order of execution tells them; the graph has a block for each, which may be another one the next time."""
    return tuple(item for item in kernel.inputs if item.startswith("ValueNode"))


def _recomputed(
    tasks: Sequence[Task], candidates: Sequence[bool], users: Users, gradients: Set[int], twins: Set[int] = frozenset()
) -> list[bool]:
    """Candidates that only the backward pass reads, and ``twins``, which are told by their place. Readers come later,
    so that one pass from the end decides. A view, and a kernel that MindSpore inserted and that stands in no cell, is
    of the pass of its own readers. What a layer computes again and nobody reads, as for a product that is excluded from
    recompute, is of the backward pass, too."""
    serving = {*gradients, *twins}
    again = []
    for task, candidate, (event, readers) in zip(reversed(tasks), reversed(candidates), reversed(users), strict=True):
        may_serve = candidate or task.primitive in VIEWS or "-" not in task.scope
        in_vain = candidate and not readers and in_layer(task.scope) is not None
        serves = may_serve and (bool(readers) or in_vain) and serving.issuperset(readers)
        again.append((candidate and serves and event not in gradients) or event in twins)
        if serves:
            serving.add(event)
    return again[::-1]


def _read_by_backward_only(users: Users, gradients: Set[int]) -> list[bool]:
    """By launch: somebody reads it, but only gradients or such as these."""
    chosen = set(gradients)
    found = []
    for event, readers in reversed(users):
        found.append(bool(readers) and chosen.issuperset(readers))
        if found[-1]:
            chosen.add(event)
    return found[::-1]


def readers_of(trace: Trace) -> dict[int, tuple[int, ...]]:
    """By tensor the launches that read it, those inside the fused kernel that makes it among them, which are no users
    of its block."""
    found = dict(zip(trace.blocks.start.tolist(), trace.blocks.readers(), strict=True))
    for task in trace.step_tasks:
        for tensor in task.inputs if (PART, "") in task.attributes else ():
            users = found.get(tensor, ())
            if task.event not in users:
                found[tensor] = (*users, task.event)
    return found


def _users(trace: Trace, tasks: Sequence[Task]) -> Users:
    readers = readers_of(trace)
    return [
        (task.event, tuple(user for made in task.outputs for user in readers.get(made, ()) if user > task.event))
        for task in tasks
    ]
