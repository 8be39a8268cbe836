"""Real runs with what published YAMLs have beside their model (mindformers' DeepSeek-V3 671B): `optimizer.swap`, whose
copies are no strategy of layers, and steps of warm-up, which part a step into several graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swapconf.timing import hardware
from swapconf.timing.costing import costs, workload
from swapconf.timing.program import program
from swapconf.timing.timing import TO_DEVICE, TO_HOST
from swapconf.trace import trace_folder
from tests.helpers import ROOT
from tests.mindspore.support.command import swapconf

pytestmark = pytest.mark.mindspore

EXAMPLE = ROOT / "configs/small/qwen3_default_swap.yaml"
SETTINGS = {
    "optimizer.swap": True,
    "lr_schedule": {"type": "ConstantWarmUpLR", "learning_rate": 1e-4, "warmup_steps": 2, "total_steps": 100},
    "model.model_config.num_hidden_layers": 2,
    "model.model_config.seq_length": 1024,
    "model.model_config.max_position_embeddings": 1024,
}
NONE: dict[str, Any] = {"swap_config": {"swap": True, "layer_swap": [], "op_swap": []}}
SWAPPED = {"swap_config": {"swap": True, "layer_swap": [{"backward_prefetch": 2, "layers": True}], "op_swap": []}}


def changes(strategy: dict[str, Any]) -> list[str]:
    return [word for key, value in {**SETTINGS, **strategy}.items() for word in ("--set", f"{key}={json.dumps(value)}")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Without and with layers that are swapped."""
    place = tmp_path_factory.mktemp("published_settings")
    for name, strategy in (("none", NONE), ("swapped", SWAPPED)):
        swapconf("dryrun", str(EXAMPLE), "--ranks", "0", "--keep", str(place / name), *changes(strategy))
    return place / "none/rank_0", place / "swapped/rank_0"


def test_a_strategy_of_layers_is_predicted_beside_it(runs: tuple[Path, Path]) -> None:
    before, after = (trace_folder.read(folder, 0) for folder in runs)
    found = swapconf("whatif", str(runs[0]), "--config", str(EXAMPLE), *changes(SWAPPED))
    assert len({kernel.graph for kernel in before.step if not kernel.is_event}) > 1
    assert found["order_of_launches"]["order"] == "mindspore"
    assert before.lasting_host_bytes > 0
    assert found["host_peak_bytes"] == after.host_peak_bytes > before.lasting_host_bytes
    assert found["used_peak_bytes"] == pytest.approx(after.used_peak_bytes, rel=0.001)
    assert after.used_peak_bytes < 0.95 * before.used_peak_bytes


def test_its_copies_go_both_ways_and_take_the_time_of_copies(runs: tuple[Path, Path]) -> None:
    trace = trace_folder.read(runs[0], 0)
    step, load = program(trace), workload(trace)
    known = hardware.load("ascend_910b2")
    taken = costs(load, known)
    # blocks of the host are of whole 512 bytes, tensors not
    least_us = 1e6 * trace.lasting_host_bytes / (known.value("host_link_gbps") * 1e9)
    for kind in (TO_HOST, TO_DEVICE):
        assert taken.duration_us[step.kind == kind].sum() >= 0.99 * least_us
