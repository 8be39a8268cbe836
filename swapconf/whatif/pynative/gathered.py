"""TRACE of a rank on shards + LAYERS -> whether a swap of them would move gathered parameters, which is not predicted.

A view of a gathered parameter, as a matrix product saves of a weight that it does not cast, is no parameter for the
swap: its storage goes to the host and comes back at the swap's times, between those of the shards.
"""

from __future__ import annotations

from collections.abc import Sequence

from swapconf.trace.trace import Trace
from swapconf.trace.work import COMMUNICATING
from swapconf.whatif.pynative.intervals import Step

_WHOLE = "Reshape"  # what a gathered parameter itself is


def layers_with_gathered(trace: Trace, steps: Sequence[Step]) -> frozenset[int]:
    """The layers whose forward passes take such a view."""
    gathered = {block for task in trace.tasks if task.primitive.startswith(COMMUNICATING) for block in task.outputs}
    views = [
        task.event
        for task in trace.tasks
        if not task.primitive.startswith((_WHOLE, *COMMUNICATING)) and gathered.intersection(task.inputs, task.outputs)
    ]
    passes = [one for step in steps for one in step.passes if not one.module]
    return frozenset(one.layer for one in passes if any(one.start < event < one.end for event in views))
