"""KERNELS of a step + ARRANGED -> KERNELS of the new step, with names, nodes and events of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate

from swapconf.dryrun.composing.arranged import with_cut
from swapconf.dryrun.composing.counterparts import Counterparts
from swapconf.dryrun.composing.passes import NONE
from swapconf.dryrun.growing.launches import named_places
from swapconf.trace.trace import Kernel, without_number

_FURTHER = "{name}{copy:06d}"  # of an event; MindSpore counts them


def step_kernels(places: Counterparts) -> tuple[Kernel, ...]:
    """The kernels of one step, counted from 1. Raises CannotCompose."""
    made = places.made
    old, copies = made.steps.kernels, made.copy.tolist()
    flat = named_places(old)
    stops = [*accumulate(len(kernel.inputs) + 1 for kernel in old)]
    named = [flat[stop - len(kernel.inputs) - 1 : stop] for kernel, stop in zip(old, stops, strict=True)]
    twins = [places.twin(place) for place in range(len(old))]
    names = _names(places)

    def there(new: int, number: int) -> int:
        """Where in the new step that input of a launch is made, or the event that it waits for sent."""
        row = int(made.source[new])
        place, twin = named[row][number], twins[row]
        return places.seen(new, place, is_shared=twin != NONE and named[twin][number : number + 1] == [place])

    found = []
    for new, row in enumerate(made.source.tolist()):
        kernel = old[row]
        inputs = []
        for number, given in enumerate(kernel.inputs):
            inputs.append(given if named[row][number] < 0 else _node(old, made.source, copies, there(new, number)))
        sent = there(new, len(inputs)) if kernel.event else NONE
        found.append(
            replace(
                kernel,
                index=new + 1,
                name=names[new],
                output=_node(old, made.source, copies, new),
                event=_event(old, made.source, copies, sent) if kernel.event else "",
                inputs=tuple(inputs),
            )
        )
    return tuple(found)


def _node(old, source, copies, new: int) -> str:
    own, copy = old[source[new]].output, copies[new]
    return f"{own}_{copy}" if copy else own


def _event(old, source, copies, new: int) -> str:
    own, copy = old[source[new]].event, copies[new]
    return _FURTHER.format(name=own, copy=copy) if copy else own


def _names(places: Counterparts) -> list[str]:
    """Each numbered among its operators, in order of launches."""
    made = places.made
    count: Counter[tuple[str, str]] = Counter()
    found = []
    rows = zip(made.source.tolist(), made.cut.tolist(), made.round.tolist(), strict=True)
    for row, cut, at in rows:
        kernel = made.steps.kernels[row]
        name = without_number(with_cut(kernel.name, cut if cut != NONE else at))
        found.append(f"{name}-op{count[kernel.graph, name]}" if name != kernel.name else name)
        count[kernel.graph, name] += 1
    return found
