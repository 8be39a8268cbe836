"""FUSED KERNELS of a run + its step UNROLLED -> FUSED KERNELS of the whole model, by their new names.

An operator in a copied kernel is that of the run in another layer. As a kernel may have operators of two layers, each
is told from its twin, at the same place of the twin of its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from swapconf.dryrun.growing.layers import Numbering, layer_in, with_layer
from swapconf.dryrun.growing.steps import Steps
from swapconf.dryrun.growing.unrolled import NONE, Unrolled
from swapconf.trace.fused_kernels import FusedKernel, FusedOperator
from swapconf.trace.trace import Kernel


def inside(steps: Steps, unrolled: Unrolled, numbering: Numbering, step: Sequence[Kernel]) -> Mapping[str, FusedKernel]:
    """``step``: the kernels of the whole model. Nothing where nothing is known of the run. Raises CannotGrow."""
    known = steps.trace.fused_kernels
    if not known:
        return {}
    turns = unrolled.turn(unrolled.source, unrolled.copy).tolist()
    sources, twins = unrolled.source.tolist(), unrolled.twin.tolist()
    found = {}
    for kernel, source, turn in zip(step, sources, turns, strict=True):
        mine, twin = known.get(steps.kernels[source].name), twins[source]
        if mine is not None:
            other = known.get(steps.kernels[twin].name) if twin != NONE else None
            found[kernel.name] = _renamed(mine, other, numbering, turn)
    return found


def _renamed(kernel: FusedKernel, twin: FusedKernel | None, numbering: Numbering, turn: int) -> FusedKernel:
    others = twin.operators[: len(kernel.operators)] if twin is not None else ()
    return replace(
        kernel,
        operators=tuple(
            replace(operator, name=_name(operator, other, numbering, turn))
            for operator, other in zip_longest(kernel.operators, others)
        ),
    )


def _name(operator: FusedOperator, twin: FusedOperator | None, numbering: Numbering, turn: int) -> str:
    layer = layer_in(operator.name)
    if layer < 0:
        return operator.name
    moves = turn != NONE and numbering.holds(layer) and (twin is None or layer_in(twin.name) != layer)
    return with_layer(operator.name, numbering.at(layer, turn) if moves else numbering.natural(layer))
