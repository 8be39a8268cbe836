"""TRACE -> what a step recomputes, and what the backward pass reads of the forward pass all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain

from swapconf.dryrun.effect.effect import Held, Launch
from swapconf.trace.phases import Phase, step_phases
from swapconf.trace.trace import Task, Trace
from swapconf.trace.work import COLLECTIVES
from swapconf.upstream.primitives import COPY, VIEWS
from swapconf.upstream.scopes import Place


def recomputed(trace: Trace, places: Mapping[str, Place]) -> tuple[tuple[Launch, ...], frozenset[Held]]:
    """(launches of one step that are recomputed, in their order; what of the forward pass is held for the backward
    pass). Views are in neither: they take and compute nothing. ``places``: by scope."""
    tasks = trace.step_tasks
    phase = dict(zip((task.event for task in tasks), step_phases(trace), strict=True))
    launch = {task.event: Launch(places[task.scope], task.primitive) for task in tasks}
    readers = {block.start: [user for user in block.users if user in phase] for block in trace.blocks}
    again = {event for event, found in phase.items() if found is Phase.RECOMPUTED}
    # of what has no cells, as a Send, the phase is a guess; what goes to the host comes back for the backward pass
    late = again | {
        task.event
        for task in tasks
        if task.primitive == COPY or (phase[task.event] is Phase.BACKWARD and "-" in task.scope)
    }
    launch |= _moved_home(tasks, again, launch, readers)
    computing = [task for task in tasks if task.primitive not in VIEWS and task.primitive != COPY]
    weights = _of_weights(tasks)
    held = (
        _held(task, late, launch, readers, task.event in weights)
        for task in computing
        if phase[task.event] is Phase.FORWARD and launch[task.event].place.layer
    )
    return tuple(launch[task.event] for task in computing if task.event in again), frozenset(chain.from_iterable(held))


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
    tasks: Sequence[Task], again: Set[int], launch: Mapping[int, Launch], readers: Mapping[int, Sequence[int]]
) -> dict[int, Launch]:
    """By event. MindSpore names some kernels of a layer after another one, such as the slices of GLM's rotary embedding
    after layer 0: what stands between recomputed kernels of one other layer alone is of that layer."""
    found: dict[int, Launch] = {}
    layers: dict[int, set[str]] = {}  # by event, of the recomputed kernels that it reads
    for task in tasks:
        if task.event not in again:
            continue
        place = launch[task.event].place
        users = {user for tensor in task.outputs for user in readers.get(tensor, ()) if user > task.event} & again
        around = {launch[user].place.layer for user in users} - {""}
        if place.layer and len(around) == 1 and around == layers.get(task.event) != {place.layer}:
            place = replace(place, layer=min(around))
            found[task.event] = replace(launch[task.event], place=place)
        for user in users:
            layers.setdefault(user, set()).update({place.layer} - {""})
    return found
