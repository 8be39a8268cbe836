"""Traces of PyNative runs: marks tell the passes and the layers, and the readers are those of graph mode.

The trace is one of MindSpore 2.10.0 and mindformers 2.0.0: configs/pynative/qwen3.yaml with two layers at hidden 64.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swapconf.dryrun.effect.effect import observed
from swapconf.memory import holders
from swapconf.memory.advice import remedy
from swapconf.memory.peak import PeakPart, as_record, of_record
from swapconf.memory.replay import replay
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.timing.program import program
from swapconf.trace import marks, trace_folder
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.trace.marked_passes import Pass, Passes
from swapconf.trace.marks import NO_LAYER, Mark, Moment
from swapconf.trace.trace import Trace
from swapconf.words.findings import SwapconfError
from tests.helpers import TRACES, unpacked

FOLDER = unpacked(TRACES / "pynative" / "qwen3_l2_none")
HIDDEN, VOCABULARY, INNER, LAYERS = 64, 128, 128, 2


@cache
def trace() -> Trace:
    return trace_folder.read(FOLDER, 0)


def reported() -> int:
    found = re.search(r"max_alloc (\d+)", (FOLDER / "expected.txt").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def test_the_used_peak_is_max_memory_allocated_to_the_byte() -> None:
    assert trace().used_peak_bytes == reported()


def test_the_pool_puts_every_block_where_mindspore_put_it() -> None:
    assert replay(trace(), lifetimes(trace())).is_exact


def test_both_steps_have_each_pass_of_each_layer_once() -> None:
    for step in (1, 2):
        found = [
            (stretch.what, stretch.layer)
            for stretch in trace().passes.stretches
            if stretch.step == step and stretch.layer != NO_LAYER
        ]
        distinct = list(dict.fromkeys(found))
        assert distinct == [
            *((Pass.FORWARD, layer) for layer in range(LAYERS)),
            *((Pass.BACKWARD, layer) for layer in reversed(range(LAYERS))),
        ]


def test_weights_and_state_have_the_size_of_the_parameters() -> None:
    live = lifetimes(trace())
    size = {
        category: int(live.size_bytes[live.category == CATEGORIES.index(category)].sum())
        for category in (Category.WEIGHT, Category.OPTIMIZER)
    }
    attention, mlp, norms = 4 * HIDDEN * HIDDEN, 3 * HIDDEN * INNER, 2 * HIDDEN + 2 * 16
    parameters = LAYERS * (attention + mlp + norms) + 2 * VOCABULARY * HIDDEN + HIDDEN
    overhead = 1024 * len(live)  # each block is rounded up by less
    assert 4 * parameters <= size[Category.WEIGHT] < 4 * parameters + overhead
    # two states for each, and in the first step those that the second replaces
    assert size[Category.OPTIMIZER] >= 2 * 4 * parameters


def test_activations_are_told_by_layer() -> None:
    live = lifetimes(trace())
    activations = live.category == CATEGORIES.index(Category.ACTIVATION)
    by_layer = [int(live.size_bytes[activations & (live.layer == layer)].sum()) for layer in range(LAYERS)]
    assert by_layer[0] == by_layer[1] > 0  # the layers are alike


def test_a_block_is_named_after_the_operator_that_first_wrote_it() -> None:
    live = lifetimes(trace())
    first: dict[int, str] = {}
    for task in trace().tasks:
        for tensor in task.outputs:
            first.setdefault(tensor, task.primitive)
    named = {start: live.names[name] for start, name in zip(live.start.tolist(), live.name.tolist(), strict=True)}
    assert {start: named[start] for start in first if start in named} == {s: n for s, n in first.items() if s in named}
    assert "MatMulExt" in named.values()


def test_the_peak_is_held_in_sum_and_layers_can_give_back() -> None:
    peak = holders.peak(trace())
    assert peak.at.used_bytes == reported()
    assert peak.at.when == "backward"
    assert peak.at.bytes_of(PeakPart.LAYERS) > 0
    assert peak.rest.used_bytes < peak.at.used_bytes
    assert peak.rest.bytes_of(PeakPart.LAYERS) == 0


def test_nothing_runs_again_where_nothing_is_recomputed() -> None:
    effect = observed(trace(), LAYERS)
    assert effect.recomputed == ()
    assert effect.layers == {"0", "1"}


def test_what_helps_is_named_as_in_a_pynative_yaml() -> None:
    peak = holders.peak(trace())
    assert of_record(as_record(peak)) == peak
    assert "local_batch_size" in remedy(peak) or "data_parallel_shard" in remedy(peak)
    assert "model_parallel" not in remedy(peak).replace("tensor_parallel", "")


def test_a_timeline_of_it_is_refused() -> None:
    with pytest.raises(ValueError, match="PyNative run, which has no graph"):
        program(trace())


def test_there_is_no_graph_and_the_reason_says_so() -> None:
    assert not trace().has_graph
    assert trace().why_no_graph == "this is the trace of a PyNative run, which has no graph"


# --- passes, from marks made by hand --------------------------------------------------------------------------------

_STEP = (
    (Moment.STEP_BEGINS, NO_LAYER),
    (Moment.FORWARD_BEGINS, 0),
    (Moment.FORWARD_ENDS, 0),
    (Moment.BACKWARD_PASS_BEGINS, NO_LAYER),
    (Moment.BACKWARD_BEGINS, 0),
    (Moment.RECOMPUTE_BEGINS, NO_LAYER),
    (Moment.FORWARD_BEGINS, 0),
    (Moment.RECOMPUTE_ENDS, NO_LAYER),
    (Moment.BACKWARD_ENDS, 0),
    (Moment.BACKWARD_PASS_ENDS, NO_LAYER),
    (Moment.OPTIMIZER_BEGINS, NO_LAYER),
    (Moment.STEP_ENDS, NO_LAYER),
)


def passes(moments: tuple[tuple[Moment, int], ...]) -> Passes:
    return Passes([Mark(10 * place, moment, layer) for place, (moment, layer) in enumerate(moments, 1)])


def test_a_forward_pass_inside_of_the_backward_pass_is_recomputed() -> None:
    found = passes(_STEP)
    assert [(found.at(event).what, found.at(event).layer) for event in (0, 15, 25, 65, 75, 85, 95, 115)] == [
        (Pass.BUILDING, NO_LAYER),
        (Pass.FORWARD, NO_LAYER),
        (Pass.FORWARD, 0),
        (Pass.RECOMPUTED, 0),
        (Pass.RECOMPUTED, 0),
        (Pass.BACKWARD, 0),
        (Pass.BACKWARD, NO_LAYER),
        (Pass.OPTIMIZER, NO_LAYER),
    ]


def test_a_second_micro_batch_runs_forward_and_recomputes_nothing() -> None:
    found = passes((*_STEP[:5], *_STEP[8:10], *_STEP[1:5]))
    assert [stretch.what for stretch in found.stretches].count(Pass.RECOMPUTED) == 0
    assert found.at(85).what is Pass.FORWARD
    assert found.at(85).layer == 0


def test_head_and_loss_are_between_the_last_layer_and_its_gradient() -> None:
    found = passes(_STEP)
    assert [found.at(event).is_loss for event in (15, 25, 35, 45, 55)] == [False, False, True, True, False]


def test_events_are_placed_all_at_once() -> None:
    found = passes(_STEP)
    assert found.places(np.array([0, 10, 19, 20])).tolist() == [0, 1, 1, 2]


# --- damaged marks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    ["", "{}", '{"moments": 3}', '{"moments": [["nothing", 0]]}', '{"moments": [["step begins", "0"]]}', "[]"],
)
def test_marks_that_are_none_are_refused(tmp_path: Path, content: str) -> None:
    copy = tmp_path / "rank_0"
    shutil.copytree(FOLDER, copy)
    (copy / marks.FILE).write_text(content)
    with pytest.raises(SwapconfError) as refused:
        trace_folder.read(copy, 0)
    assert refused.value.findings[0].origin.file == str(copy / marks.FILE)


def test_marks_that_nobody_used_a_block_for_are_refused(tmp_path: Path) -> None:
    copy = tmp_path / "rank_0"
    shutil.copytree(FOLDER, copy)
    told = json.loads((FOLDER / marks.FILE).read_text(encoding="utf-8"))
    (copy / marks.FILE).write_text(json.dumps({marks.MOMENTS: told[marks.MOMENTS][:-1]}))
    with pytest.raises(SwapconfError, match="as often as there are marks"):
        trace_folder.read(copy, 0)
