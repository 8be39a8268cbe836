"""The order of launches of a composed trace: MindSpore's own, played on the graph of the composed step.

``middle`` is stage 2 of 4 of Qwen3 (as in test_composing.py, one layer) with 6 micro-batches under MindSpore 2.9.0, and
the graph that decided the order of its launches. What 8 micro-batches really take was measured with the same versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swapconf.dryrun.composing.arranged import Arranged, arranged, copied_parameter
from swapconf.dryrun.composing.batch import Batch, with_batch
from swapconf.dryrun.composing.composed import Composed, Source, composed
from swapconf.dryrun.composing.keep import keep
from swapconf.dryrun.composing.ordered import _turns, ordered
from swapconf.dryrun.composing.passes import passes
from swapconf.dryrun.composing.rearranged import rearranged
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.repeated import LAST, LAST_IN_THE_MIDDLE, repeated
from swapconf.dryrun.growing.steps import steps
from swapconf.trace import trace_folder
from swapconf.trace.launch_graph import DEPEND, LaunchGraph
from swapconf.trace.launch_order import reproduces
from swapconf.trace.trace import Trace
from tests.helpers import TRACES, packed
from tests.unit.test_composing import stage

USED, WITH_FRAGMENTS = 89_203_712, 104_687_104  # of stage 2 with 8 micro-batches, in its own run
CUT = [7, 5, 6, 0, 4, 3, 2, 1]  # micro-batches, in the order in which that run cuts them out of the batch
CONSTANTS = 0.00003  # of the used peak: a few that the run with fewer micro-batches shares


def run() -> Trace:
    return packed(TRACES / "composing" / "middle")


@cache
def middle() -> Source:
    return Source(stage=stage(2, 4, 4, 6), trace=run(), micro_batches=6)


@cache
def with_eight() -> Composed:
    return composed(stage(2, 4, 4, 8), [middle()])


def of_itself(trace: Trace, micro_batches: int) -> Arranged:
    found = steps(trace)
    taken = passes(found, micro_batches)
    return arranged(found, taken, taken.in_flight, micro_batches)


def test_a_stage_in_the_middle_takes_with_fragments_what_its_own_run_takes() -> None:
    assert with_eight().trace.used_peak_bytes == pytest.approx(USED, rel=CONSTANTS)
    assert with_eight().trace.with_fragments_peak_bytes == pytest.approx(WITH_FRAGMENTS, rel=CONSTANTS)


def test_the_micro_batches_are_cut_out_of_the_batch_in_the_order_of_a_run() -> None:
    cuts = [name for kernel in with_eight().trace.step if "_MicroBatch/StridedSlice" in (name := kernel.name)]
    assert [int(name.partition("micro_inputs-CellList/")[2].partition("-")[0]) for name in cuts] == CUT


def test_mindspores_rules_launch_the_composed_graph_as_the_composed_trace() -> None:
    found = with_eight()
    assert found.graph is not None
    assert len(found.graph) > len(run().launch_graph or ())
    assert reproduces(found.graph, found.trace.kernels)


def test_the_graph_is_kept_with_the_trace_so_that_what_if_has_mindspores_order(tmp_path: Path) -> None:
    keep(with_eight(), tmp_path)
    again = trace_folder.read(tmp_path / "rank_4", rank=4)
    assert again.launch_graph is not None
    assert reproduces(again.launch_graph, again.kernels)


@pytest.mark.parametrize(
    ("name", "micro_batches"),
    [
        ("composing/middle", 6),
        ("in_order/qwen3_moe_view_of_a_router", 3),
        ("in_order/deepseek_v3_recomputed_mlp", 3),
        ("in_order/glm2_add_beside_a_recomputed_norm", 4),
        ("in_order/llama_alone_among_replicas", 4),
        ("fused_in_order/llama", 2),
    ],
)
def test_the_graph_of_any_family_is_put_together_from_its_own_passes_as_it_was(name: str, micro_batches: int) -> None:
    trace = packed(TRACES / name)
    assert trace.launch_graph is not None
    casts = (node for node, primitive in enumerate(trace.launch_graph.primitive) if primitive == "Cast")
    graph = replace(trace.launch_graph, of_function=frozenset(casts))
    found = ordered(of_itself(trace, micro_batches), graph)
    again = rearranged(found.made)
    named = found.named(again.step)
    assert named.of_function == graph.of_function
    assert (named.primitive, named.inputs, named.unique) == (graph.primitive, graph.inputs, graph.unique)
    assert reproduces(named, again.kernels)


def test_a_stage_in_the_middle_does_not_compose_without_the_graph_of_the_run() -> None:
    blind = replace(middle(), trace=replace(run(), launch_graph_file=""))
    with pytest.raises(CannotCompose, match="was not kept with the run"):
        composed(stage(2, 4, 4, 8), [blind])


def test_where_a_launch_goes_past_events_each_goes_with_the_launch_that_it_is_for() -> None:
    made = of_itself(run(), 6)
    launches, place = _with_message(made, "Send")
    moved = [*launches[: place - 3], launches[place], *launches[place - 3 : place], *launches[place + 1 :]]
    turns = _turns(made, moved)
    assert [one for one in turns if one in {*launches}] == moved
    assert sorted(turns) == list(range(len(made.source)))
    assert _in_front(made, turns, launches[place]) == _in_front(made, range(len(turns)), launches[place])
    assert len(_in_front(made, turns, launches[place])) >= 2  # its stream waits for what it sends


def test_an_order_in_which_a_stream_would_wait_for_what_comes_later_is_refused() -> None:
    made = of_itself(run(), 6)
    launches, place = _with_message(made, "Receive")
    late = [*launches[:place], *launches[place + 1 : place + 20], launches[place], *launches[place + 20 :]]
    with pytest.raises(CannotCompose, match="MindSpore would launch the repeated graph in another order"):
        _turns(made, late)


def _with_message(made: Arranged, primitive: str) -> tuple[list[int], int]:
    """The places of all launches, and which of them is a message in the middle of the step."""
    kernels = [made.steps.kernels[source] for source in made.source.tolist()]
    launches = [place for place, kernel in enumerate(kernels) if not kernel.is_event]
    messages = [turn for turn, place in enumerate(launches) if kernels[place].primitive == primitive]
    return launches, messages[len(messages) // 2]


def _in_front(made: Arranged, turns: Sequence[int], launch: int) -> list[str]:
    found: list[str] = []
    for place in reversed(turns[: [*turns].index(launch)]):
        kernel = made.steps.kernels[int(made.source[place])]
        if not kernel.is_event:
            break
        found.append(kernel.name)
    return found


def test_an_order_in_which_launches_leave_their_passes_is_refused() -> None:
    graph = run().launch_graph
    assert graph is not None
    with pytest.raises(CannotCompose, match="MindSpore would launch the repeated graph in another order"):
        ordered(of_itself(run(), 6), _without_waits(graph))


def test_the_graph_of_another_run_is_refused() -> None:
    graph = run().launch_graph
    assert graph is not None
    other = replace(graph, name=tuple(f"{name}0" for name in graph.name))
    with pytest.raises(CannotCompose, match="not one of the kernels that it launches"):
        ordered(of_itself(run(), 6), other)


def test_copies_of_parameters_are_told_apart_by_what_they_copy() -> None:
    found = steps(run())
    taken = passes(found, 6)
    copied = [copied_parameter(found, place) for place in range(found.length) if taken.number[place] >= 0]
    norms = {name for name in copied if "self_attention" in name}
    assert {name.rpartition(".self_attention.")[2] for name in norms} == {"q_layernorm.weight", "k_layernorm.weight"}
    assert [copied.count(name) for name in norms] == [6, 6]  # one a micro-batch


@pytest.mark.parametrize(
    ("given", "wanted", "last_pairs", "pairs"),
    [  # of two in flight; pairs of a forward and a backward pass
        (6, 8, LAST_IN_THE_MIDDLE, [0, 1, 1, 1, 2, 3, 4]),
        (8, 6, LAST_IN_THE_MIDDLE, [0, 1, 4, 5, 6]),
        (6, 8, LAST, [0, 1, 2, 2, 2, 3, 4]),
        (6, 6, LAST_IN_THE_MIDDLE, [0, 1, 2, 3, 4]),
        (8, 3, LAST, [0, 6]),
    ],
)
def test_the_first_and_the_last_pairs_of_the_steady_part_stay(
    given: int, wanted: int, last_pairs: int, pairs: Sequence[int]
) -> None:
    found = repeated(2, given, 2, wanted, last_pairs)
    assert found == [0, *(1 + 2 * pair + side for pair in pairs for side in (0, 1)), 2 * given - 1]


def test_a_run_whose_last_pairs_are_all_that_it_has_does_not_show_what_each_further_one_repeats() -> None:
    with pytest.raises(CannotCompose, match="too few micro-batches"):
        repeated(2, 4, 2, 8, LAST_IN_THE_MIDDLE)


def test_the_first_pair_is_not_repeated_as_nothing_was_sent_back_before_it() -> None:
    with pytest.raises(CannotCompose, match="too few micro-batches"):
        repeated(4, 5, 4, 10, LAST)  # 93 % too large where it was
    with pytest.raises(CannotCompose, match="too few micro-batches"):
        repeated(5, 8, 3, 8, LAST_IN_THE_MIDDLE)


def _without_waits(graph: LaunchGraph) -> LaunchGraph:
    """What waits for something, waits for nothing."""
    return replace(
        graph,
        inputs=tuple(
            inputs[:1] if primitive == DEPEND else inputs
            for primitive, inputs in zip(graph.primitive, graph.inputs, strict=True)
        ),
    )


@pytest.mark.parametrize(
    ("full_batch", "replicas"),
    [(True, 4), (None, 4), (False, 1)],  # as without the key
)
def test_a_batch_has_the_rows_of_all_that_share_its_data_unless_it_is_cut_for_them(
    full_batch: bool | None, replicas: int
) -> None:
    settings = {} if full_batch is None else {"parallel.full_batch": full_batch}
    assert Batch.of(6, settings, stage(0, 2, 4, 6, data=4).cluster) == Batch(micro_batches=6, replicas=replicas)


def test_a_micro_batch_is_cut_with_the_rows_of_all_that_share_its_data() -> None:
    """Of a Llama with data parallel 2 and ``full_batch``, 4 micro-batches of 2 rows."""
    run = packed(TRACES / "in_order/llama_alone_among_replicas")
    found = with_batch(run, Batch(micro_batches=4, replicas=2), Batch(micro_batches=6, replicas=4))
    handed = {tensor.shape for task in found.tasks if task.primitive == "GetNext" for tensor in task.output_tensors}
    cuts = [task for task in found.tasks if "_MicroBatch/StridedSlice" in task.name]
    assert handed == {(24, 2049)}
    assert {(task.input_tensors[0].shape, task.output_tensors[0].shape) for task in cuts} == {((24, 2049), (4, 2049))}
    rows = np.searchsorted(run.blocks.start, [task.outputs[0] for task in cuts])
    small, large = run.blocks.size_bytes[rows], found.blocks.size_bytes[rows]
    assert small.tolist() == [16896] * len(cuts)  # 2 x 2049 numbers of 4 bytes, and what the pool adds
    assert large.tolist() == [33280] * len(cuts)
    others = np.setdiff1d(np.arange(len(run.blocks.start)), rows)
    changed = np.flatnonzero(run.blocks.size_bytes[others] != found.blocks.size_bytes[others])
    assert len(changed) == len({task.outputs for task in found.tasks if task.primitive == "GetNext"})
