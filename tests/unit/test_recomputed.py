"""What runs again, against the plain difference of two real runs."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swapconf.timing.costing import workload
from swapconf.timing.program import step_tasks
from swapconf.timing.recomputed import recomputed
from swapconf.trace import trace_folder
from swapconf.trace.trace import Trace
from swapconf.trace.work import work
from swapconf.upstream.primitives import VIEWS
from tests.helpers import golden

MORE = Path(os.environ.get("SWAPCONF_TRACES") or "nowhere")
PAIRS = sorted(
    path.name
    for path in MORE.glob("*.*")
    if re.search(r"\.(recompute|select-\w+)$", path.name) and (MORE / f"{path.name.partition('.')[0]}.none").exists()
)


def operations(trace: Trace) -> float:
    """Of the whole step."""
    load = workload(trace)
    each = np.array([work(item.primitive, item.inputs, item.outputs, item.attention) for item in load.signatures])
    return float(sum(done.matrix_ops + done.wide_matrix_ops + done.vector_ops for done in each[load.index]))


def computing(trace: Trace) -> int:
    """Kernels of a step, views aside."""
    return sum(task.primitive not in VIEWS for task in step_tasks(trace))


def test_added_operations_are_what_the_step_has_more_than_one_without_recompute() -> None:
    plain, again = golden("llama_l2_none"), golden("llama_l2_recompute")
    added = recomputed(again).operations - recomputed(plain).operations
    assert added == pytest.approx(operations(again) - operations(plain), rel=1e-6)
    assert recomputed(again).kernels - recomputed(plain).kernels == computing(again) - computing(plain)


@pytest.mark.parametrize("name", ["llama_l2_none", "llama_l2_layerswap_n1", "llama_l3_flash_n1"])
def test_without_recompute_only_what_the_model_computes_again_anyway_is_found(name: str) -> None:
    assert recomputed(golden(name)).operations < 1e-3 * operations(golden(name))


@pytest.mark.skipif(not PAIRS, reason="SWAPCONF_TRACES names no folder with runs with and without recompute")
@pytest.mark.parametrize("name", PAIRS)
def test_so_it_is_for_real_models(name: str) -> None:
    plain, again = (trace_folder.read(MORE / folder, 0) for folder in (f"{name.partition('.')[0]}.none", name))
    added = recomputed(again).operations - recomputed(plain).operations
    assert added == pytest.approx(operations(again) - operations(plain), rel=1e-3)


def test_names_do_not_decide() -> None:
    """MindSpore calls the forward kernels of a recomputed cell by the same prefix."""
    trace = golden("llama_l2_recompute")

    def plain(name: str) -> str:
        return name.replace("recompute_", "")

    taken: dict[str, int] = {}
    renamed = {
        item.name: f"{plain(item.scope)}/{item.primitive}-op{taken.setdefault(item.name, len(taken))}"
        for item in trace.tasks
        if item.is_kernel
    }
    kernels = tuple(replace(item, name=renamed.get(item.name, item.name)) for item in trace.kernels)
    tasks = tuple(replace(item, name=renamed.get(item.name, item.name)) for item in trace.tasks)
    bare = replace(trace, kernels=kernels, tasks=tasks)
    assert recomputed(bare) == recomputed(trace)


def test_what_was_swapped_out_is_known_when_it_comes_back() -> None:
    """feed_forward is recomputed from a norm that is swapped."""
    assert recomputed(golden("llama_l3_ffnnorm_swap_ffn_recompute")).operations > 1e9
