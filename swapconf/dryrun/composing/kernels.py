"""KERNELS of a step + ARRANGED -> KERNELS of the new step, with names, nodes and events of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate

from swapconf.dryrun.composing.arranged import Arranged, with_cut
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.growing.launches import named_places
from swapconf.trace.trace import Kernel, without_number


def step_kernels(places: Counterparts) -> tuple[Kernel, ...]:
    """The kernels of one step, counted from 1. Raises CannotCompose."""
    made, names = places.made, _names(places.made)
    named = _named(made)
    found = []
    for new, row in enumerate(made.source.tolist()):
        kernel, others = made.steps.kernels[row], _seen(places, new, named)
        found.append(
            replace(
                kernel,
                index=new + 1,
                name=names[new],
                output=_node(made, new),
                event=_event(made, others[-1]) if kernel.event else "",
                inputs=tuple(
                    given if maker == NONE else _node(made, maker)
                    for given, maker in zip(kernel.inputs, others[:-1], strict=True)
                ),
            )
        )
    return tuple(found)


def _named(made: Arranged) -> list[list[int]]:
    """[places] where each input is made, NONE for what no launch makes, and where the event is sent."""
    kernels = made.steps.kernels
    flat = named_places(kernels)
    counts = [len(kernel.inputs) + 1 for kernel in kernels]
    return [flat[stop - count : stop] for count, stop in zip(counts, accumulate(counts), strict=True)]


def _seen(places: Counterparts, new: int, named: list[list[int]]) -> list[int]:
    """The same of a new launch, in the new step."""
    row = int(places.made.source[new])
    twin = places.twin(row)
    others = named[twin] if twin != NONE else []
    return [
        NONE if place < 0 else places.seen(new, place, is_shared=others[number : number + 1] == [place])
        for number, place in enumerate(named[row])
    ]


def _node(made: Arranged, new: int) -> str:
    own, copy = made.steps.kernels[int(made.source[new])].output, int(made.copy[new])
    return f"{own}_{copy}" if copy else own


def _event(made: Arranged, new: int) -> str:
    """MindSpore counts them."""
    own, copy = made.steps.kernels[int(made.source[new])].event, int(made.copy[new])
    return f"{own}{copy:06d}" if copy else own


def _names(made: Arranged) -> list[str]:
    """Each numbered among its operators, in order of launches."""
    count: Counter[tuple[str, str]] = Counter()
    found = []
    rows = zip(made.source.tolist(), made.cut.tolist(), made.round.tolist(), strict=True)
    for row, cut, at in rows:
        kernel = made.steps.kernels[row]
        name = without_number(with_cut(kernel.name, cut if cut != NONE else at))
        found.append(f"{name}-op{count[kernel.graph, name]}" if name != kernel.name else name)
        count[kernel.graph, name] += 1
    return found
