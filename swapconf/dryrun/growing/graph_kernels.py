"""NODES of the whole model's graph -> which kernels of the grown trace they are, and whether they are launched so.

MindSpore's own rules have to launch the kernels of the new graph in the order of the grown trace: two ways to the same
order that know nothing of each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from swapconf.dryrun.growing.reason import CannotGrow
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.launch_graph import LaunchGraph
from swapconf.trace.trace import Kernel
from swapconf.words.phrases import phrase


def of_graph(step: Sequence[Kernel]) -> list[int]:
    """Places of the kernels of the one graph that most are of: a condition may part a step into several, of which that
    one is kept (see `whatif.graph.behind`)."""
    places = [place for place, kernel in enumerate(step) if not kernel.is_event]
    most = Counter(step[place].graph for place in places).most_common(1)
    return [place for place in places if step[place].graph == most[0][0]]


def check(order: Sequence[str], step: Sequence[Kernel]) -> None:
    """``order``: in which MindSpore's rules launch the kernels of a graph. Raises CannotGrow where that is not how
    ``step`` launches them."""
    ran = [step[place].name for place in of_graph(step)]
    if order != ran:
        pairs = enumerate(zip(order, ran, strict=False), 1)
        parted = next((launch for launch, (one, other) in pairs if one != other), min(len(order), len(ran)) + 1)
        raise CannotGrow(
            phrase("MindSpore would launch the repeated graph in another order (launch {launch})", launch=parted)
        )


def kernels_of(
    graph: LaunchGraph, nodes: Unrolled, launches: Unrolled, places: Mapping[str, int], step: Sequence[Kernel]
) -> dict[int, str]:
    """By new node of a kernel its name: that of the launch at the same turn. ``places``: of the kernels in the step of
    the run, ``launches`` that is unrolled to ``step``. Raises CannotGrow where one would be two nodes."""
    where = np.array([places.get(name, NONE) for name in graph.name], dtype=np.int64)[nodes.source].tolist()
    shown = [launches.shown(turn).tolist() for turn in range(nodes.more + 1)]
    found: dict[int, int] = {}
    open_: dict[int, tuple[int, int]] = {}  # of what is no copy: at the turn that is next to it, or at the other end
    for node, (place, turn, copy) in enumerate(zip(where, nodes.beside.tolist(), nodes.copy.tolist(), strict=True)):
        if place != NONE and copy != NONE:
            found[node] = shown[turn][place]
        elif place != NONE:
            open_[node] = shown[turn][place], shown[0 if turn else -1][place]
    free = {*of_graph(step)}
    if len(found) + len(open_) != len(free) or len(free - set(found.values())) != len(open_):
        raise CannotGrow(phrase("the repeated graph does not have the kernels of the repeated step"))
    found |= _taken(open_, free - set(found.values()))
    return {node: step[at].name for node, at in found.items()}


def _taken(choices: Mapping[int, tuple[int, int]], free: set[int]) -> dict[int, int]:
    """By node one of its two places, each for one node only: where both are free, the first. Raises CannotGrow."""
    found: dict[int, int] = {}
    left = dict(choices)
    while left:
        sure = [node for node, places in left.items() if len(free.intersection(places)) < 2] or [next(iter(left))]
        for node in sure:
            place = next((place for place in left.pop(node) if place in free), None)
            if place is None:
                raise CannotGrow(phrase("the repeated graph does not have the kernels of the repeated step"))
            found[node] = place
            free.discard(place)
    return found
