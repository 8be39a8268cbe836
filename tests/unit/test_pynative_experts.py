"""What-if of a rank whose tensors and experts are shared out, against true runs of it.

The trace is one of MindSpore 2.10.0 and mindformers 2.1.0 with swapconf's stand-in for hyper_parallel, its launches
blocked: a small DeepSeek-V3 of a dense layer and one of experts, tensor_parallel 2 and expert_parallel 2.
``expected.txt`` has MindSpore's own ``max_memory_allocated`` of it and of runs of it with recompute and swap.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swapconf.config.yaml_document import parse
from swapconf.study.study import study_document
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Task
from swapconf.upstream.facts import Versions
from swapconf.whatif.pynative.dispatches import Dispatches
from swapconf.whatif.pynative.intervals import Interval, Step
from swapconf.whatif.pynative.question import NativeQuestion
from tests.helpers import TRACES, unpacked

FOLDER = unpacked(TRACES / "pynative" / "deepseek_v3_l2_tp2_ep2")
PAIR = Versions(mindspore="2.10.0", mindformers="2.1.0")
CASES = {
    "none": "",
    "full": "recompute: {mode: full, full_recompute_layer: ['0-1']}\n",
    "select": "recompute: {mode: select, select_module: {mlp: ['0-1'], self_attention: ['0']}}\n",
    "swap": "swap: {enable: True, default_prefetch: 1, layer_swap: [{layers: ['0']}]}\n",
}


def true(name: str) -> int:
    told = dict(line.split() for line in (FOLDER / "expected.txt").read_text(encoding="utf-8").splitlines())
    return int(told[name])


def asked(name: str) -> NativeQuestion:
    text = f"{(FOLDER / 'config.yaml').read_text(encoding='utf-8')}\n{CASES[name]}"
    return NativeQuestion(FOLDER, study_document(parse(text, "train.yaml"), PAIR, {}))


@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_that_of_the_true_run_and_the_bound_is_above(name: str) -> None:
    found = asked(name).answer()
    assert found.prediction.used_peak_bytes == pytest.approx(true(name), abs=2 * 512)
    assert found.safe_bytes >= true(name)


def test_what_a_layer_of_experts_recomputes_stays_until_it_sends_tokens_again() -> None:
    assert true("full") > true("none"), "so recompute of both layers takes more than none here"
    question = asked("full")
    first, last = (step.layer(1) for step in question.steps)
    assert first is not None
    assert last is not None
    dispatches = question.layout.dispatches
    assert dispatches.held(first)
    assert last.start < dispatches.until(first) < last.end
    assert dispatches.until(last) == NEVER
    dense = question.steps[0].layer(0)
    assert dense is not None
    assert not dispatches.held(dense)


@pytest.mark.parametrize(("name", "is_held"), [("attention.unfused_indexer_loss", True), ("attention", False)])
def test_the_loss_of_an_indexer_hangs_on_what_a_dispatch_keeps(name: str, is_held: bool) -> None:
    """No tensor shows it: what the loss is computed from leads nowhere."""
    tasks = [
        launched(12, "Softmax", (1,), (11,)),
        launched(14, "SumExt", (11,), (13,)),
        launched(32, "Sigmoid", (2,), (31,)),
        launched(42, "InnerCommAllToAllV", (31,), (41,)),
        launched(44, "GroupedMatmul", (41,), (43,)),
        launched(46, "Mul", (43, 31), (45,)),
    ]
    passes = tuple(Interval(0, module, *events) for module, events in MODULES.items())
    layer = Interval(0, "", 3, 60, turn=70, through=90)
    step = Step(0, 65, 95, {0: 70}, (Interval(0, name, 10, 20), *passes, layer))
    trace: Any = SimpleNamespace(tasks=tasks)
    held = Dispatches(trace, [step]).held(layer)
    assert 31 in held
    assert (11 in held) is is_held


MODULES = {"mlp.router": (30, 35), "mlp.experts": (40, 50)}


def launched(event: int, primitive: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Task:
    return Task(
        event=event, name=primitive, inputs=inputs, outputs=outputs, attributes=(), input_tensors=(), output_tensors=()
    )
