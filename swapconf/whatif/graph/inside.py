"""VALUE + PART -> whether it stands in a recomputed cell: it is made there, or is a parameter that is read there; what
in the cell reads it; which cell it is, and where a stage begins and ends."""

from __future__ import annotations

from swapconf.models.cells import FINAL_NORM, INPUT_NORM, PROJECTION, QUERY_NORM, SELF_ATTENTION
from swapconf.trace.launch_graph import DEPEND, LOAD, STATE, TUPLE
from swapconf.upstream.primitives import CAST, VIEWS
from swapconf.whatif.graph.asked import NO_CELL, Asked, Part
from swapconf.whatif.graph.nodes import COPY
from swapconf.whatif.graph.run_graph import NO_KERNEL

_FAR = 3
_BEGIN = (INPUT_NORM, SELF_ATTENTION)
_SHOWS = VIEWS | {COPY, CAST}  # what is between a parameter and what reads it


def is_in(asked: Asked, node: int, part: Part, *, of_again: bool = False, far: int = 0) -> bool:
    """``node``: of the run's graph; ``of_again``: it is made by what runs again."""
    run, passing = asked.run, asked.baseline.kernels.passing
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


def is_read_again(asked: Asked, node: int) -> bool:
    """By something that runs again: what nothing reads MindSpore removes from the graph of a recomputed cell."""
    run = asked.run
    for user in run.users[node]:
        kernel = run.kernel_of.get(user, NO_KERNEL)
        if kernel in asked.again:
            return True
        is_shown = kernel != NO_KERNEL and run.baseline.kernels.primitive[kernel] in _SHOWS
        if (is_shown or run.graph.primitive[user] == DEPEND) and is_read_again(asked, user):
            return True
    return False


def is_at_end(home: str, last: str) -> bool:
    """In the last cell of a layer, or in the norm behind the layer that predicts a further token."""
    return last in home or home == FINAL_NORM


def is_attention_alone(asked: Asked, part: Part) -> bool:
    """An attention of mcore with norms of query and key, recomputed by itself. Its first Linear is a func graph that
    has loaded its weight when it returns: what it returns waits for the state in which the attention is called, and no
    later state for that weight (seen in the last graphs of Qwen3 and Qwen3-MoE, on one and on several ranks; in a layer
    that is recomputed as a whole the weight is awaited)."""
    cell = asked.marks.actions.cells[part.cell] if part.cell != NO_CELL else ""
    return asked.run.is_inlined and cell == SELF_ATTENTION and f"{cell}.{QUERY_NORM}" in asked.operators(part)


def begins_stage(asked: Asked, part: Part) -> bool:
    """Whether the cell of a part stands where a later stage begins, in front of query, key and value: what its layer is
    sent comes in no state of the parameters."""
    baseline, (first, *_) = asked.baseline, asked.marks.strategy.operators
    batch = baseline.batches[asked.run.batch_of_pass[part.passing]]
    if part.passing != batch[0] or baseline.layer_of(part.passing) == first:
        return False
    path = asked.marks.actions.cells[part.cell] if part.cell != NO_CELL else ""
    return path == "" or (path.startswith(_BEGIN) and not path.endswith(PROJECTION))


def ends_in_loss(asked: Asked, batch: int) -> bool:
    """Whether the last layer of the model is that of a micro-batch, or of a piece of it on this stage."""
    baseline, (*_, last) = asked.baseline, asked.marks.strategy.operators
    return baseline.layer_of(baseline.batches[batch][-1]) == last
