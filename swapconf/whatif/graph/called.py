"""LAUNCH PLAN -> KERNELS by the recomputed cell that they stand in, whether they run again or not.

MindSpore 2.9.0 hands the state in which parameters are read through the calls of recomputed cells, so only cells that
read some are told.

Mirrors the calls of func graphs that hold a monad.
"""

from __future__ import annotations

import numpy as np

from swapconf.trace.columns import Ints
from swapconf.trace.launch_graph import LOAD, NO_NODE
from swapconf.whatif.graph.run_graph import RunGraph
from swapconf.whatif.placed import PlacedBaseline
from swapconf.whatif.predict import LaunchPlan


def called(prepared: PlacedBaseline, run: RunGraph, plan: LaunchPlan) -> Ints:
    """[kernels] the number of the outermost, -1 for none."""
    baseline, actions = prepared.baseline, plan.marks.actions
    outermost = np.full(len(baseline.kernels), -1, dtype=np.int64)
    layers = [baseline.layer_of(kernel) for kernel in range(run.count)]
    for number, cell in sorted(enumerate(actions.cells), key=lambda numbered: -len(numbered[1])):
        is_asked_for = np.array([cell in actions.roots.get(layer, ()) for layer in layers], dtype=np.bool_)
        inside = np.flatnonzero(plan.marks.covered.under[number, : run.count] & is_asked_for)
        if any(_reads_parameter(run, kernel) for kernel in inside.tolist()):
            outermost[inside] = number
    return outermost


def _reads_parameter(run: RunGraph, kernel: int) -> bool:
    """Or what is made of parameters alone."""
    graph, rootless = run.graph, run.baseline.rootless
    given = [value for value in graph.inputs[run.node_of[kernel]] if value != NO_NODE]
    return any(
        graph.primitive[value] == LOAD or (value in run.kernel_of and rootless[run.kernel_of[value]]) for value in given
    )
