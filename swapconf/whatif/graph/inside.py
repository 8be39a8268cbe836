"""VALUE + PART -> whether it stands in a recomputed cell: it is made there, or is a parameter that is read there."""

from __future__ import annotations

from swapconf.trace.launch_graph import LOAD, STATE, TUPLE
from swapconf.whatif.graph.asked import Asked, Part
from swapconf.whatif.graph.nodes import COPY

_FAR = 3


def is_in(asked: Asked, node: int, part: Part, *, of_again: bool = False, far: int = 0) -> bool:
    """``node``: of the run's graph; ``of_again``: it is made by what runs again."""
    run, passing = asked.run, asked.prepared.baseline.kernels.passing
    kernel = run.kernel_of.get(run.source(node)[0])
    if kernel is not None and not is_loaded(asked, node):
        is_here = int(passing[kernel]) == part.passing and asked.is_under(part.cell, kernel)
        return is_here and (kernel in asked.again or not of_again)
    users = run.users[node] if far < _FAR else []
    return any(
        is_in(asked, user, part, of_again=of_again, far=far + 1)
        for user in users
        if run.graph.primitive[user] not in {STATE, TUPLE}
    )


def is_loaded(asked: Asked, node: int) -> bool:
    """A parameter as it is read, or a copy of it."""
    return asked.run.graph.primitive[node] in {COPY, LOAD}
