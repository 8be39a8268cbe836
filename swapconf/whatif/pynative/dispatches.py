"""TRACE + STEPS -> DISPATCHES: what experts on other ranks keep of a layer that runs again.

What sends tokens to experts on other ranks keeps, of each layer, what it needs to put back what comes home: the
probabilities of the tokens, and where each was. It is kept until the layer sends tokens again, and with it the graph
that it was made in. The graph of what runs again goes through no backward pass, which would let go of what it saved: so
all that was saved on the way to the probabilities stays, attention and norms too, up to the next micro-batch or step.
Source: mindformers 2.1.0, pynative/distributed/expert_parallel.py, ``self.ctx``.

Auxiliary losses hang on that way, and no tensor shows it: the router's on the probabilities, and the indexer's of
compressed attention on what attention makes (``_IndexerLossAutoScaler`` of csa.py and dsa_attention.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swapconf.trace.lifetimes import NEVER
from swapconf.trace.marks import NO_KERNELS
from swapconf.trace.trace import Task, Trace
from swapconf.trace.work import COMMUNICATING, GROUPED
from swapconf.whatif.pynative.intervals import Interval, Step

_EXPERTS, _ROUTER = "experts", "router"  # mindformers' names of the cell whose tokens are sent, and of who says where
_INDEXER_LOSS = "indexer_loss"  # how the names of the cells end that compute it
_EXCHANGE = "AllToAll"
_LINEAR = (*NO_KERNELS, "Cast", "AddExt", "Concat", "Contiguous", "SumExt")
_SAVING_OUTPUTS = ("FlashAttentionScore", "Sigmoid", "Exp", "Softmax")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Of one forward pass of a layer's experts. ``sent``: the event behind which tokens are with them. ``told``: births
    of what it keeps; ``before``: of what that was made from and with, in the order of the tasks that did. ``leading``:
    cells all of which lead to what it keeps."""

    layer: int
    experts: Interval
    sent: int
    told: frozenset[int]
    before: tuple[Task, ...]
    leading: tuple[Interval, ...]

    def is_leading(self, task: Task) -> bool:
        return any(one.start < task.event < one.end for one in self.leading)


class Dispatches:
    def __init__(self, trace: Trace, steps: Iterable[Step]) -> None:
        self._found = tuple(_dispatches(trace, steps))
        self._held: dict[Interval, frozenset[int]] = {}
        self._turns: dict[tuple[int, str], dict[int, tuple[Step, Interval]]] = {}
        for step in steps:
            for one in step.passes:
                if one.turn is not None:
                    self._turns.setdefault((one.layer, one.module), {})[one.turn] = step, one

    def of(self, part: Interval) -> Dispatch | None:
        """The one in a part; None where it has none, or is itself what sends: that is given the probabilities."""
        inside = (one for one in self._found if one.layer == part.layer and part.start < one.experts.start < part.end)
        return next(inside, None)

    def held(self, part: Interval) -> frozenset[int]:
        """Births of what operators save in a part on the way to what its dispatch keeps: of what is made there, and of
        what the part is given."""
        if part not in self._held:
            dispatch = self.of(part)
            self._held[part] = frozenset() if dispatch is None else _held(dispatch, part)
        return self._held[part]

    def has(self, birth: int, part: Interval) -> bool:
        """Whether it is made in a part, and kept by its dispatch, or on the way to what that keeps."""
        return birth > part.start and birth in self.held(part)

    def until(self, part: Interval) -> int:
        """The event up to which the dispatch of a part that runs again keeps it: when another micro-batch sends tokens,
        or runs again; NEVER behind the last."""
        if part.turn is None:
            return NEVER
        sent = [one.sent for one in self._found if one.layer == part.layer]
        again = self._turns.get((part.layer, part.module), {})
        return min((event for event in (*sent, *again) if event > part.turn), default=NEVER)

    def turning(self, part: Interval, event: int) -> tuple[Step, Interval] | None:
        """The pass of a part in another micro-batch that turns at an event."""
        return self._turns.get((part.layer, part.module), {}).get(event)


def _dispatches(trace: Trace, steps: Iterable[Step]) -> Iterator[Dispatch]:
    for step in steps:
        for one in step.passes:
            if one.module.rpartition(".")[2] == _EXPERTS and (found := _dispatch(trace, step, one)) is not None:
                yield found


def _dispatch(trace: Trace, step: Step, experts: Interval) -> Dispatch | None:
    """None where the tokens of these experts stay on their rank."""
    layer = step.layer(experts.layer)
    start = experts.start if layer is None else layer.start
    tasks = [task for task in trace.tasks if start < task.event < experts.end]
    products = [task.event for task in tasks if task.event > experts.start and task.primitive in GROUPED]
    if not products or not any(_is_sending(task, experts.start, products[0]) for task in tasks):
        return None
    before = tuple(task for task in tasks if task.event < products[0])
    made = {birth for task in before for birth in task.outputs if birth > start}
    used = {birth for task in tasks if task.event > products[-1] for birth in task.inputs}
    return Dispatch(
        layer=experts.layer,
        experts=experts,
        sent=products[0],
        told=frozenset(made & used),
        before=before,
        leading=tuple(_leading(step, experts)),
    )


def _held(dispatch: Dispatch, part: Interval) -> frozenset[int]:
    wanted, found = set(dispatch.told), set(dispatch.told)
    for task in reversed(dispatch.before):
        if task.event > part.start and (dispatch.is_leading(task) or wanted.intersection(task.outputs)):
            wanted.update(task.inputs, task.outputs)
            found.update(_saved_by(task))
    return frozenset(found)


def _leading(step: Step, experts: Interval) -> Iterator[Interval]:
    """The router and the losses of indexers before some experts of a layer."""
    router = f"{experts.module.removesuffix(_EXPERTS)}{_ROUTER}"
    for one in step.passes:
        is_so = one.module == router or one.module.endswith(_INDEXER_LOSS)
        if is_so and one.layer == experts.layer and one.end <= experts.start:
            yield one


def _saved_by(task: Task) -> Iterator[int]:
    """Births of what an operator may save for its gradient. One that communicates saves what it makes, too, one that is
    linear nothing; most save what they are given, some what they make, and of several outputs those that only the
    gradient asks for come behind the first."""
    if task.primitive.startswith(COMMUNICATING):
        yield from (*task.inputs, *task.outputs)
    elif not task.primitive.endswith(_LINEAR):
        yield from task.inputs
        yield from task.outputs if task.primitive.startswith(_SAVING_OUTPUTS) else task.outputs[1:]


def _is_sending(task: Task, start: int, end: int) -> bool:
    return start < task.event < end and task.primitive.startswith(COMMUNICATING) and _EXCHANGE in task.primitive
