"""What-if of a rank whose tensors and experts are shared out, against true runs of it.

The trace is one of MindSpore 2.10.0 and mindformers 2.1.0 with swapconf's stand-in for hyper_parallel, its launches
blocked: a small DeepSeek-V3 of a dense layer and one of experts, tensor_parallel 2 and expert_parallel 2.
``expected.txt`` has MindSpore's own ``max_memory_allocated`` of it and of runs of it with recompute and swap.
"""

from __future__ import annotations

import pytest

from swapconf.config.yaml_document import parse
from swapconf.study.study import study_document
from swapconf.trace.lifetimes import NEVER
from swapconf.upstream.facts import Versions
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
