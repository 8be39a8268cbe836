"""EARLY GRAPH + STRATEGY -> CALLS: the forward and the backward pass of a micro-batch under a strategy.

All passes from ``merge_forward`` of the second round of ``opt_a`` (the dump ``opt_a_r2_j0_27`` of 2.9.0) to ``cconv``
that change anything of the two, in MindSpore's order. The early graph is of a run in which cells are kept as func
graphs of their own (``Cell.add_flags(output_recompute=False)``, which changes nothing else): those that a strategy
recomputes stay, others are inlined as if they had never been (`borders`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from swapconf.decide.strategy import Strategy
from swapconf.trace.launch_graph import DEPEND, TUPLE
from swapconf.whatif.lift.func_graphs import Callee, EarlyGraph
from swapconf.whatif.passes.auto_monad_eliminator import load_first
from swapconf.whatif.passes.b_1 import virtual_in_order
from swapconf.whatif.passes.backend import Lowered, LoweredCalls, Ref, lower
from swapconf.whatif.passes.borders import without_borders
from swapconf.whatif.passes.captures import captures, free_variables, places
from swapconf.whatif.passes.cse import merged
from swapconf.whatif.passes.inline import drop_virtual, inlined, take_elements
from swapconf.whatif.passes.k_prims import outline
from swapconf.whatif.passes.marks import cells_again, mark_offload, mark_recompute
from swapconf.whatif.passes.not_recompute import hand_on, inline_left_out
from swapconf.whatif.passes.offload import offload
from swapconf.whatif.passes.recompute_cell import recompute
from swapconf.whatif.passes.renormalize import drop_dead_elements, drop_zeros, wait_once
from swapconf.whatif.passes.update_state import merge_states, merge_states_of_graphs


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is the same under every strategy, as the run without one tells it.

    Attributes:
        outputs: See `placed_calls.saved_outputs`.
        behind: How many gradients a backward pass returns behind one Depend; ``are_all``: it returns nothing else.
    """

    outputs: Collection[tuple[str, int]]
    behind: int
    are_all: bool

    @classmethod
    def of(cls, calls: LoweredCalls, outputs: Collection[tuple[str, int]]) -> Kept:
        result = calls.gradients
        assert isinstance(result, Lowered)
        are_all = result.primitive == DEPEND
        depend = result if are_all else result.inputs[0]
        gradients = depend.inputs[1] if isinstance(depend, Lowered) and depend.primitive == DEPEND else None
        is_tuple = isinstance(gradients, Lowered) and gradients.primitive == TUPLE
        behind = len(gradients.inputs) if isinstance(gradients, Lowered) and is_tuple else 0
        return cls(outputs=outputs, behind=behind, are_all=are_all)


def calls_of(module: EarlyGraph, strategy: Strategy, kept: Kept) -> LoweredCalls:
    """Edits the module. Raises NoBorder."""
    without_borders(module, cells_again(module, strategy))
    mark_recompute(module, strategy)
    outline(module)
    mark_offload(module, strategy)
    return calls_under(module, kept)


def calls_under(module: EarlyGraph, kept: Kept) -> LoweredCalls:
    """Edits the module, of which the borders are those of the strategy, its marks those of its swap."""
    primals = recompute(module)
    offload(module)
    hand_on(module, primals)
    inline_left_out(module, primals)
    drop_dead_elements(module)
    load_first(module)
    merged(module.reached())
    wait_once(module)
    drop_zeros(module)
    drop_dead_elements(module)
    merge_states_of_graphs([graph.end for graph in module.reached()])
    before, turns = free_variables(module, module.backward), places(module.forward)
    virtual = virtual_in_order(module)
    drop_virtual(module)
    after = inlined(module, module.forward)
    merge_states([after.forward.end, after.backward.end], after.taken)
    take_elements(after)
    gone = merged([after.forward, after.backward])
    again = {Callee(one.graph.name) for one in primals}
    captured = captures(before, turns, after, gone, virtual, again)
    calls = lower(after.forward, after.backward, captured, kept.outputs)
    return replace(calls, gradients=_returned(calls.gradients, kept))


def _returned(gradients: Ref, kept: Kept) -> Lowered:
    """What the training step takes one by one, and the rest behind one Depend."""
    assert isinstance(gradients, Lowered)
    if not kept.behind:
        return gradients
    behind, rest = gradients.inputs[: kept.behind], gradients.inputs[kept.behind :]
    depend = Lowered(DEPEND, [None, Lowered(TUPLE, list(behind))])
    return depend if kept.are_all else Lowered(TUPLE, [depend, *rest])
