"""Where a strategy launches what: MindSpore 2.9.0 on the golden traces, where possible against the true run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from swapconf.trace.lifetimes import TICKS
from swapconf.trace.trace import Trace
from swapconf.whatif.predict import LaunchPlan, predict, prediction, schedule
from swapconf.whatif.site_actions import asked_alone, site_actions
from swapconf.whatif.swap import _ahead, _freed_with_later
from swapconf.whatif.weight_copies import WeightCopies
from tests.helpers import golden
from tests.unit import test_whatif as llama
from tests.unit import test_whatif_mcore as qwen

LAYER_SWAP = "swap_config={{swap: True, layer_swap: [{{backward_prefetch: {prefetch}, layers: True}}]}}"
RECOMPUTE = ("swap_config={swap: False}", "recompute_config.recompute=True")


def of_llama(*changes: str) -> LaunchPlan:
    strategy = llama.study(*changes).strategy
    assert strategy is not None
    return schedule(llama.baseline(), strategy)


def launches_behind(trace: Trace) -> Counter[tuple[str, int]]:
    """By name of what made a tensor, how many other kernels were launched before its copy to the host."""
    kernels = [kernel for kernel in trace.kernels if not kernel.is_event]
    tasks = [task for task in trace.tasks if task.is_kernel]
    made: dict[int, tuple[str, int]] = {}
    found: Counter[tuple[str, int]] = Counter()
    turn = 0
    for kernel, task in zip(kernels, tasks, strict=True):
        if kernel.copies_to_host:
            name, at = made[task.inputs[0]]
            found[name, turn - at - 1] += 1
        if kernel.primitive != "MoveTo":
            made |= dict.fromkeys(task.outputs, (kernel.name.rpartition("-op")[0], turn))
            turn += 1
    return found


def test_copies_to_the_host_are_launched_where_the_true_run_launched_them() -> None:
    windows, names = of_llama(LAYER_SWAP.format(prefetch=1)).windows, llama.baseline().baseline.kernels.name
    predicted = Counter(
        (names[face].rpartition("-op")[0], int(at // TICKS - face))
        for face, at in zip(windows.face.tolist(), windows.copied.tolist(), strict=True)
    )
    true = launches_behind(golden("llama_l2_layerswap_n1"))
    assert sum(true.values()) == sum(predicted.values())
    assert sum((true & predicted).values()) >= 0.75 * sum(true.values())


def test_when_the_step_has_waited_for_a_copy_earlier_ones_are_over() -> None:
    copied, released = np.array([10, 30, 20, 40]), np.array([100, 60, 500, 90])
    assert _freed_with_later(copied, released).tolist() == [60, 60, 60, 90]


def test_a_copy_back_stands_between_its_kernel_and_the_one_before_it() -> None:
    close = np.array([0, 4 * TICKS, 4 * TICKS + 2, 4 * TICKS + 4, 9 * TICKS])
    assert all(close[place - 1] < _ahead(close, np.array([place]))[0] < close[place] for place in (1, 2, 3, 4))


def test_of_copies_that_reach_back_to_the_loss_those_for_its_last_readers_alone_come_behind_its_exponents() -> None:
    graph, found = llama.baseline().baseline, of_llama(LAYER_SWAP.format(prefetch=100))
    exponent = next(index for index, name in enumerate(graph.kernels.name) if "_nllloss-_NLLLoss/Exp" in name)
    windows, at = found.windows, found.program.where[exponent]
    begin = graph.returnable[windows.face]
    at_start = (windows.returned < found.program.where[begin]) & (begin == begin.min())
    sooner = windows.returned[at_start] < at
    assert set(sooner.tolist()) == {True, False}
    assert windows.far[at_start][sooner].min() >= windows.far[at_start][~sooner].max()


def test_the_loss_computes_its_exponents_before_copies_that_reach_back_to_it() -> None:
    names = llama.baseline().baseline.kernels.name
    exponent = next(index for index, name in enumerate(names) if "_nllloss-_NLLLoss/Exp" in name)
    near, far = (of_llama(LAYER_SWAP.format(prefetch=prefetch)).program.where[exponent] for prefetch in (1, 100))
    start = next(index for index, name in enumerate(names) if name.startswith("Gradients")) * TICKS
    assert far < start < near


@pytest.mark.parametrize(("changes", "first"), [(RECOMPUTE, "weight"), ((llama.OFF,), "input")])
def test_the_gradient_of_the_head_s_weight_comes_first_where_the_last_layer_is_recomputed(
    changes: tuple[str, ...], first: str
) -> None:
    kernels, where = llama.baseline().baseline.kernels, of_llama(*changes).program.where
    head = [index for index, name in enumerate(kernels.name) if "lm_head-Linear/Grad_MatMul/MatMul" in name]
    assert len(head) == 2
    true = golden("llama_l2_recompute" if first == "weight" else "llama_l2_none")
    order = [kernel.name for kernel in true.kernels if "lm_head-Linear/Grad_MatMul/MatMul" in kernel.name]
    by_place = sorted(head, key=lambda index: int(where[index]))
    assert [kernels.name[index].rpartition("-op")[2] for index in by_place] == [
        name.rpartition("-op")[2] for name in order
    ]


def test_tables_that_all_layers_share_run_again_in_each() -> None:
    prepared = qwen.baseline()
    kernels = prepared.baseline.kernels
    launched = schedule(prepared, qwen.strategy(*RECOMPUTE))
    again = Counter(kernels.primitive[node] for node in launched.program.copies.tolist())
    forward = Counter(
        primitive for primitive, late in zip(kernels.primitive, kernels.backward.tolist(), strict=True) if not late
    )
    assert again["Cos"] == 2 * forward["Cos"] == 2 * prepared.baseline.steps


ONE = "swap_config={{swap: True, layer_swap: [{{backward_prefetch: {prefetch}, layers: {layers}}}]}}"


# counts, from the first layer on
EXCLUDED = (
    r"recompute_config.select_recompute_exclude="
    r"{{'self_attention\.apply_rotary_pos_emb\.mul_mscale': [{number}]}}"
)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ((ONE.format(prefetch=5, layers="True"),), 0),
        (("swap_config={swap: False}", "recompute_config.recompute=[1]"), 0),
        ((ONE.format(prefetch=5, layers="[1]"),), 1),
        (("swap_config={swap: False}", EXCLUDED.format(number=1)), 1),
        (("swap_config={swap: False}", EXCLUDED.format(number=2)), 0),
        (
            (
                "swap_config={swap: True, layer_swap: [{backward_prefetch: 5, layers: [0]}, "
                "{backward_prefetch: 6, layers: [1]}]}",
            ),
            1,
        ),
    ],
)
def test_tables_are_shared_by_layers_that_swap_or_exclude_them_alike(changes: tuple[str, ...], parts: int) -> None:
    prepared = qwen.baseline()
    kernels = prepared.baseline.kernels
    program = schedule(prepared, qwen.strategy(*changes)).program
    assert program.parted == parts * len(prepared.sites.shared)
    again = len(program.copies) - program.parted
    assert set(program.copies[again:].tolist()) == {kernel for kernel, _ in prepared.sites.shared if parts}
    assert parts == 0 or predict(prepared, qwen.strategy(*changes)).recomputed == 0
    old = np.concatenate([np.arange(len(prepared.baseline.maker)), program.origin])[program.block]
    apart = (
        (program.block >= len(prepared.baseline.maker))
        & np.isin(prepared.baseline.maker[old], program.copies[again:])
        & (program.reader >= 0)
    )
    assert set(kernels.layer[prepared.baseline.served[program.reader[apart]]].tolist()) == ({1} if parts else set())


def test_every_gradient_belongs_to_a_pass_and_passes_end_one_after_the_other() -> None:
    baseline = llama.baseline().baseline
    found = baseline.served[baseline.kernels.backward]
    layers = baseline.kernels.layer[found]
    assert (found >= 0).all()
    assert (np.diff(layers) <= 0).mean() > 0.99


CAST = r"'feed_forward\.w1\.cast': True"


@pytest.mark.parametrize(("asked", "alone"), [(CAST, True), (CAST + ", 'feed_forward': True", False)])
def test_a_cast_is_asked_for_alone_where_no_cell_around_it_is(asked: str, alone: bool) -> None:
    strategy = llama.study(llama.OFF, f"recompute_config.select_recompute={{{asked}}}").strategy
    assert strategy is not None
    sites, kernels = llama.baseline().sites, llama.baseline().baseline.kernels
    found = np.flatnonzero(asked_alone(sites, site_actions(sites, strategy)))
    cells = {(kernels.cell[node], kernels.primitive[node]) for node in found.tolist()}
    inside = {(cell, primitive) for cell, primitive in cells if cell.startswith("feed_forward")}
    assert inside == ({("feed_forward.w1", "Cast")} if alone else set())


def test_copies_of_weights_take_memory_from_where_they_are_made_until_they_are_read() -> None:
    prepared, launched = llama.baseline(), of_llama(llama.OFF)
    cast, row = next(iter(prepared.baseline.weights.items()))
    column = np.array([row]), np.array([cast * TICKS]), np.array([(cast + 9) * TICKS])
    weights = WeightCopies(row=column[0], born=column[1], until=column[2])
    without, held = (prediction(prepared, plan).device for plan in (launched, replace(launched, weights=weights)))
    assert len(held) == len(without) + 1
    assert held.is_persistent.sum() == without.is_persistent.sum()
    size = int(prepared.baseline.blocks.size_bytes[row])
    lives = ((held.end - held.start) * held.size_bytes)[~held.is_persistent].sum()
    lives -= ((without.end - without.start) * without.size_bytes)[~without.is_persistent].sum()
    assert 0 < lives < 100 * TICKS * size
