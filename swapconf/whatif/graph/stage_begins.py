"""PART -> whether nothing in front of its cell has a state: it stands where a later stage begins, in front of query,
key and value."""

from __future__ import annotations

from swapconf.whatif.graph.asked import NO_CELL, Asked, Part

_BEGIN, _BEHIND = ("input_layernorm", "self_attention"), "linear_proj"


def begins_stage(asked: Asked, part: Part) -> bool:
    """What a layer at the beginning of a later stage is sent comes in no state of the parameters."""
    baseline, (first, *_) = asked.prepared.baseline, asked.plan.marks.strategy.operators
    batch = baseline.batches[asked.run.batch_of_pass[part.passing]]
    if part.passing != batch[0] or baseline.layer_of(part.passing) == first:
        return False
    path = asked.plan.marks.actions.cells[part.cell] if part.cell != NO_CELL else ""
    return path == "" or (path.startswith(_BEGIN) and not path.endswith(_BEHIND))
