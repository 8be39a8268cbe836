"""What-if on an mcore model: two layers of the small Qwen3 on one stage, as mindformers' Trainer ran them.

The traces are of ``swapconf dryrun`` with MindSpore 2.9.0 and MindSpore Transformers 1.9.0 (stacks of Python frames are
cut out): without swap, and with whole-layer swap, backward_prefetch 5.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from swapconf.decide.strategy import Strategy
from swapconf.study.study import Study
from swapconf.trace.trace import Trace
from swapconf.upstream.scopes import in_layer
from swapconf.whatif.bound import safe_peak_bytes
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import predict
from swapconf.whatif.prepare import prepare
from swapconf.whatif.question import Question
from tests.helpers import ROOT, TRACES, golden, study_of, unpacked

CONFIG = str(ROOT / "configs" / "small" / "qwen3_default_swap.yaml")
SHAPE = (
    "model.model_config.num_hidden_layers=2",
    "parallel_config.pipeline_stage=1",
    "parallel_config.data_parallel=4",
    "parallel_config.micro_batch_num=1",
    "parallel.dataset_strategy=[[4,1],[4,1],[4,1],[4,1]]",
)
LAYER_SWAP = "swap_config={swap: True, layer_swap: [{backward_prefetch: 5, layers: True}]}"


@cache
def asked(*changes: str) -> Study:
    return study_of(CONFIG, *SHAPE, *changes)


def strategy(*changes: str) -> Strategy:
    found = asked(*changes).strategy
    assert found is not None
    return found


@cache
def baseline() -> PlacedBaseline:
    network = asked().network
    assert network is not None
    return placed(prepare(golden("mcore/qwen3_l2_none")), network)


def copied(trace: Trace) -> tuple[Counter[tuple[int, str, int]], Counter[tuple[int, str, int]]]:
    """(layer, primitive, bytes) of what one step copies to the host; those that it never copies back."""
    made: dict[int, str] = {}
    read: Counter[tuple[int, str, int]] = Counter()
    unread: Counter[tuple[int, str, int]] = Counter()
    kernels = [kernel for kernel in trace.kernels if not kernel.is_event]
    tasks = [task for task in trace.tasks if task.is_kernel]
    ends = {block.start: block.end for block in trace.blocks if block.on_host}
    back = {
        task.event
        for kernel, task in zip(kernels, tasks, strict=True)
        if kernel.primitive == "MoveTo" and not kernel.copies_to_host
    }
    for kernel, task in zip(kernels, tasks, strict=True):
        if kernel.copies_to_host:
            name = made[task.inputs[0]]
            size = -(-(task.input_tensors[0].size_bytes or 0) // 512) * 512
            place = in_layer(name.rpartition("/")[0])
            key = place.index if place else -1, name.rpartition("/")[2].partition("-op")[0], size
            comes_back = (ends[task.event] or 0) - 3 in back  # the host block ends with the copy back
            (read if comes_back else unread)[key] += 1
        for output in task.outputs:
            made.setdefault(output, kernel.name)
    return tuple(
        Counter({key: count // trace.num_steps for key, count in found.items()})  # type: ignore[return-value]
        for found in (read, unread)
    )


def predicted(unread: bool) -> Counter[tuple[int, str, int]]:
    """(layer, operator, bytes)."""
    found = predict(baseline(), strategy(LAYER_SWAP))
    rows: Counter[tuple[int, str, int]] = Counter()
    for index in np.flatnonzero(found.moves.unread == unread).tolist():
        layer, path = found.moves.sites[found.moves.site[index]]
        rows[int(layer), path, int(found.moves.host_bytes[index])] += 1
    return Counter({key: count // found.steps for key, count in rows.items()})


def sizes(rows: Counter[tuple[int, str, int]]) -> list[int]:
    """In a true run some kernels are named after no layer, so only the sizes of what they make are compared."""
    return sorted(size for _, _, size in rows.elements())


def test_nothing_asked_for_leaves_the_trace_as_it_is() -> None:
    found = predict(baseline(), strategy("swap_config={swap: False}"))
    assert found.used_peak_bytes == golden("mcore/qwen3_l2_none").used_peak_bytes


def test_what_comes_back_is_what_came_back() -> None:
    true, _ = copied(golden("mcore/qwen3_l2_layerswap_n5"))
    assert sizes(predicted(unread=False)) == sizes(true)


def test_the_copies_that_nobody_reads_are_known() -> None:
    _, true = copied(golden("mcore/qwen3_l2_layerswap_n5"))
    found = predicted(unread=True)
    assert {path for _, path, _ in found} == {
        "mlp.activation_func.mul",
        "mlp.linear_fc1.cast",
        "self_attention.linear_qkv.matmul",
    }
    assert sizes(found) == sizes(true)


def test_peak() -> None:
    """The constants of the graph weigh more here than in a real model; without them it would be 0.01 %."""
    found = predict(baseline(), strategy(LAYER_SWAP))
    true = golden("mcore/qwen3_l2_layerswap_n5").used_peak_bytes
    assert found.used_peak_bytes == pytest.approx(true, rel=0.02)
    assert safe_peak_bytes(baseline(), strategy(LAYER_SWAP)) >= true


def test_the_answer_tells_of_copies_that_nobody_reads() -> None:
    question = Question(unpacked(TRACES / "mcore" / "qwen3_l2_none"), asked(LAYER_SWAP))
    told = [finding for finding in question.answer().findings if finding.rule == "copies-never-read"]
    assert len(told) == 1
    assert "self_attention.linear_qkv.matmul" in told[0].message
