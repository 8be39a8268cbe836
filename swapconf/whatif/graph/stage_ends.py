"""ASKED -> where a stage begins and ends: which cells stand in front of all that has a state, and which micro-batches
end in the loss."""

from __future__ import annotations

from swapconf.models.cells import INPUT_NORM, PROJECTION, SELF_ATTENTION
from swapconf.whatif.graph.asked import NO_CELL, Asked, Part

_BEGIN = (INPUT_NORM, SELF_ATTENTION)


def begins_stage(asked: Asked, part: Part) -> bool:
    """Whether the cell of a part stands where a later stage begins, in front of query, key and value: what its layer is
    sent comes in no state of the parameters."""
    baseline, (first, *_) = asked.prepared.baseline, asked.plan.marks.strategy.operators
    batch = baseline.batches[asked.run.batch_of_pass[part.passing]]
    if part.passing != batch[0] or baseline.layer_of(part.passing) == first:
        return False
    path = asked.plan.marks.actions.cells[part.cell] if part.cell != NO_CELL else ""
    return path == "" or (path.startswith(_BEGIN) and not path.endswith(PROJECTION))


def ends_in_loss(asked: Asked, batch: int) -> bool:
    """Whether the last layer of the model is that of a micro-batch, or of a piece of it on this stage."""
    baseline, (*_, last) = asked.prepared.baseline, asked.plan.marks.strategy.operators
    return baseline.layer_of(baseline.batches[batch][-1]) == last
