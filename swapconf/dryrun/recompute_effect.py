"""TRACE -> what a step recomputes, and what the backward pass reads of the forward pass all the same."""

from __future__ import annotations

from collections.abc import Mapping

from swapconf.dryrun.effect import Held, Launch, Place
from swapconf.phases import Phase, step_phases
from swapconf.primitives import COPY, VIEWS
from swapconf.trace import Trace


def recomputed(trace: Trace, places: Mapping[str, Place]) -> tuple[tuple[Launch, ...], frozenset[Held]]:
    """(launches of one step that are recomputed, in their order; what of the forward pass is held for the backward
    pass). Views are in neither: they take and compute nothing. ``places``: by scope."""
    tasks = trace.step_tasks
    phase = dict(zip((task.event for task in tasks), step_phases(trace), strict=True))
    place = {task.event: places[task.scope] for task in tasks}
    # of what has no cells, as a Send, the phase is a guess
    late = {task.event for task in tasks if task.primitive != COPY and (
        phase[task.event] is Phase.RECOMPUTED or (phase[task.event] is Phase.BACKWARD and "-" in task.scope))}
    readers = {block.start: block.users for block in trace.blocks}
    again, held = [], set()
    for task in tasks:
        if task.primitive in VIEWS or task.primitive == COPY:
            continue
        if phase[task.event] is Phase.RECOMPUTED:
            again.append(Launch(place[task.event], task.primitive))
        elif phase[task.event] is Phase.FORWARD and place[task.event].layer:
            for tensor in task.outputs:
                users = {user for user in readers.get(tensor, ()) if user > task.event and user in phase}
                if users & late:
                    forward = frozenset(place[user] for user in users - late)
                    held.add(Held(place[task.event], task.primitive, forward))
    return tuple(again), frozenset(held)
