"""What runs again, against the plain difference of two real runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swapconf.simulate.costing import workload
from swapconf.simulate.program import step_tasks
from swapconf.simulate.recomputed import recomputed
from swapconf.simulate.work import work
from swapconf.trace import Trace
from tests.unit.test_replay import golden


def operations(trace: Trace) -> float:
    """Of the whole step."""
    load = workload(trace)
    each = np.array([work(item.primitive, item.inputs, item.outputs, max(1, len(item.ranks)), item.attention)
                     for item in load.signatures])
    return float(sum(done.matrix_ops + done.wide_matrix_ops + done.vector_ops for done in each[load.index]))


def test_added_operations_are_what_the_step_has_more_than_one_without_recompute() -> None:
    plain, again = golden("llama_l2_none"), golden("llama_l2_recompute")
    found = recomputed(again)
    assert found.operations == pytest.approx(operations(again) - operations(plain), rel=2e-3)
    assert found.kernels == pytest.approx(len(step_tasks(again)) - len(step_tasks(plain)), rel=0.1)


@pytest.mark.parametrize("name", ["llama_l2_none", "llama_l2_layerswap_n1", "llama_l3_flash_n1"])
def test_nothing_runs_again_without_recompute(name: str) -> None:
    assert recomputed(golden(name)).operations == 0


def test_names_do_not_decide() -> None:
    """MindSpore calls the forward kernels of a recomputed cell by the same prefix."""
    trace = golden("llama_l2_recompute")

    def plain(name: str) -> str:
        return name.replace("recompute_", "")

    taken: dict[str, int] = {}
    renamed = {item.name: f"{plain(item.scope)}/{item.primitive}-op{taken.setdefault(item.name, len(taken))}"
               for item in trace.tasks if item.is_kernel}
    kernels, tasks = (tuple(replace(item, name=renamed.get(item.name, item.name)) for item in items)
                      for items in (trace.kernels, trace.tasks))
    bare = replace(trace, kernels=kernels, tasks=tasks)
    assert recomputed(bare) == recomputed(trace)


def test_what_was_swapped_out_is_known_when_it_comes_back() -> None:
    """feed_forward is recomputed from a norm that is swapped."""
    assert recomputed(golden("llama_l3_ffnnorm_swap_ffn_recompute")).operations > 1e9
