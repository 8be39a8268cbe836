"""TRACE -> what a step recomputes, and what the backward pass reads of the forward pass all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain

from swapconf.dryrun.effect.effect import Held, Launch
from swapconf.trace.phases import Phase, readers_of
from swapconf.trace.trace import Task, Trace
from swapconf.trace.work import COLLECTIVES
from swapconf.upstream.primitives import COPY, VIEWS
from swapconf.upstream.scopes import Place


def recomputed(trace: Trace, places: Mapping[str, Place]) -> tuple[tuple[Launch, ...], frozenset[Held]]:
    """(launches of one step that are recomputed, in their order; what of the forward pass is held for the backward
    pass). Views are in neither: they take and compute nothing. ``places``: by scope."""
    tasks = trace.step_tasks
    phase = dict(zip((task.event for task in tasks), trace.step_phases, strict=True))
    launch = {task.event: Launch(places[task.scope], task.primitive) for task in tasks}
    readers = {tensor: [user for user in users if user in launch] for tensor, users in readers_of(trace).items()}
    again = {event for event, found in phase.items() if found is Phase.RECOMPUTED}
    # of what has no cells, as a Send, the phase is a guess; what goes to the host comes back for the backward pass
    late = again | {
        task.event
        for task in tasks
        if task.primitive == COPY or (phase[task.event] is Phase.BACKWARD and "-" in task.scope)
    }
    of_weights = _of_weights(tasks)
    launch |= _moved_home(tasks, again, launch, readers, _weights(trace, of_weights))
    computing = [task for task in tasks if task.primitive not in VIEWS and task.primitive != COPY]
    held = (
        _held(task, late, launch, readers, task.event in of_weights)
        for task in computing
        if phase[task.event] is Phase.FORWARD and launch[task.event].place.layer
    )
    again -= _in_vain(tasks, again, readers)
    return tuple(launch[task.event] for task in computing if task.event in again), frozenset(chain.from_iterable(held))


def _in_vain(tasks: Sequence[Task], again: Set[int], readers: Mapping[int, Sequence[int]]) -> set[int]:
    """Of ``again`` what nobody reads but such: it takes nothing, and nothing tells whose it is where it is misnamed."""
    found: set[int] = set()
    for task in reversed(tasks):
        users = {user for made in task.outputs for user in readers.get(made, ()) if user > task.event}
        if task.event in again and users <= found:
            found.add(task.event)
    return found


def _weights(trace: Trace, of_weights: Set[int]) -> set[int]:
    """Tensors that are weights, or that these events made of them."""
    made = {made for task in trace.step_tasks if task.event in of_weights for made in task.outputs}
    return made | trace.blocks.starts("Weight")


def _of_weights(tasks: Sequence[Task]) -> set[int]:
    """Events of casts and collectives that read nothing that the step made but what such ones did."""
    found: set[int] = set()
    maker: dict[int, int] = {}
    for task in tasks:
        sources = {maker[tensor] for tensor in task.inputs if tensor in maker}
        if sources <= found and (task.primitive == "Cast" or task.primitive in COLLECTIVES):
            found.add(task.event)
        maker |= dict.fromkeys(task.outputs, task.event)
    return found


def _held(
    task: Task, late: Set[int], launch: Mapping[int, Launch], readers: Mapping[int, Sequence[int]], of_weights: bool
) -> Iterator[Held]:
    """The outputs of a launch that one of ``late`` reads, each with the launches of the forward pass that do."""
    for tensor in task.outputs:
        users = {user for user in readers.get(tensor, ()) if user > task.event}
        if users & late:
            read_by = frozenset(launch[user] for user in users - late)
            yield Held(launch[task.event].place, task.primitive, read_by, of_weights)


def _moved_home(
    tasks: Sequence[Task],
    again: Set[int],
    launch: Mapping[int, Launch],
    readers: Mapping[int, Sequence[int]],
    weights: Set[int],
) -> dict[int, Launch]:
    """By event. MindSpore names some kernels of a layer after another one, such as the slices of GLM's rotary embedding
    after layer 0: recomputed kernels that follow on one another, are named after one layer, and read no weight, are of
    the one layer that stands around them and does; where none does, as without ``mp_comm_recompute``, of the one of
    which more kernels stand around them. ``weights``: tensors."""
    running = [task for task in tasks if task.event in again and launch[task.event].place.layer]
    near = _near(running, readers)
    rows = _rows(near, {event: launch[event].place.layer for event in near})
    own = {rows[task.event] for task in running if not weights.isdisjoint(task.inputs)}
    home = _homes(near, rows, {rows[event]: launch[event].place.layer for event in near}, own)
    return {event: _in_layer(launch[event], home[row]) for event, row in rows.items() if row in home}


def _homes(
    near: Mapping[int, Set[int]], rows: Mapping[int, int], layer: Mapping[int, str], own: Set[int]
) -> dict[int, str]:
    """By row of launches the layer that it is of. ``layer``: after which it is named; ``own``: rows named right."""
    count = Counter(rows.values())
    around: dict[int, set[int]] = {}
    for event, others in near.items():
        around.setdefault(rows[event], set()).update(rows[other] for other in others)
    sure = {row: {layer[other] for other in others & own} for row, others in around.items() if row not in own}
    home = {row: min(layers) for row, layers in sure.items() if len(layers) == 1}
    named = {**layer, **home}  # a row around one may be misnamed, too
    for row in (row for row, layers in sure.items() if not layers):
        layers = {named[other] for other in around[row] if count[other] > count[row]}
        if len(layers) == 1:
            home[row] = min(layers)
    return home


def _near(running: Sequence[Task], readers: Mapping[int, Sequence[int]]) -> dict[int, set[int]]:
    """By event those that read what it made, and that made what it reads."""
    found: dict[int, set[int]] = {task.event: set() for task in running}
    for task in running:
        for user in {user for made in task.outputs for user in readers.get(made, ())} & found.keys() - {task.event}:
            found[task.event].add(user)
            found[user].add(task.event)
    return found


def _rows(near: Mapping[int, Set[int]], layer: Mapping[int, str]) -> dict[int, int]:
    """By event the first one of those of its layer that are connected with it."""
    found: dict[int, int] = {}
    for first in near:
        waiting = [] if first in found else [first]
        while waiting:
            event = waiting.pop()
            if event not in found:
                found[event] = first
                waiting += [other for other in near[event] if layer[other] == layer[event]]
    return found


def _in_layer(launch: Launch, layer: str) -> Launch:
    return replace(launch, place=replace(launch.place, layer=layer))
