"""Real runs of two layouts: the stage of the one, composed from the run of the other, is as its own run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from swapconf.dryrun.composing.composed import composed
from swapconf.dryrun.composing.keep import keep, source
from swapconf.dryrun.growing.layers import layer_in
from swapconf.trace.launch_order import launched
from swapconf.trace.trace import Trace
from tests.helpers import ROOT
from tests.mindspore.support.command import swapconf

pytestmark = [pytest.mark.mindspore, pytest.mark.thorough]

EXAMPLE = ROOT / "configs/llama2_7b/example1_default_swap.yaml"
MODEL = {"hidden_size": 64, "num_heads": 4, "seq_length": 256, "vocab_size": 128, "multiple_of": 16}
CLOSE = 0.001
DEEPSEEK = ROOT / "configs/small/deepseek_v3_default_swap.yaml"
AS_PUBLISHED = {  # in the 671B of mindformers
    "model.model_config.first_k_dense_replace": 0,
    "parallel_config.data_parallel": 2,
    "parallel.enable_parallel_optimizer": "true",
    "optimizer.swap": "true",
    "lr_schedule": "{type: ConstantWarmUpLR, learning_rate: 2.e-5, warmup_steps: 200, total_steps: -1}",
}


def dry_run(folder: Path, layers: int, stages: int, micro_batches: int) -> None:
    settings = {
        **{f"model.model_config.{key}": value for key, value in MODEL.items()},
        "model.model_config.num_layers": layers,
        "parallel_config.data_parallel": 1,
    }
    of_rank(EXAMPLE, 0, folder, stages, micro_batches, settings)


def of_rank(
    config: Path, rank: int, folder: Path, stages: int, micro_batches: int, settings: Mapping[str, Any]
) -> None:
    all_settings = {
        **settings,
        "parallel_config.model_parallel": 2,
        "parallel_config.pipeline_stage": stages,
        "parallel_config.micro_batch_num": micro_batches,
        "runner_config.gradient_accumulation_steps": 1,
        "swap_config.swap": "false",
    }
    words = [word for key, value in all_settings.items() for word in ("--set", f"{key}={value}")]
    swapconf("dryrun", str(config), "--ranks", str(rank), "--no-cache", "--no-fold", "--keep", str(folder), *words)


def peaks(trace: Trace) -> list[int]:
    return [trace.used_peak_bytes, trace.with_fragments_peak_bytes]


def test_the_first_of_two_stages_composed_from_the_first_of_four_is_as_its_own_run(tmp_path: Path) -> None:
    dry_run(tmp_path / "four", layers=4, stages=4, micro_batches=6)
    dry_run(tmp_path / "two", layers=2, stages=2, micro_batches=5)
    run, truth = source(tmp_path / "four" / "rank_0"), source(tmp_path / "two" / "rank_0")
    found = composed(truth.stage, [run])
    assert len(found.trace.kernels) == len(truth.trace.kernels)
    assert peaks(found.trace) == pytest.approx(peaks(truth.trace), rel=CLOSE)
    keep(found, tmp_path / "composed")
    (memory,) = swapconf("memory", str(tmp_path / "composed" / "rank_0"))
    assert memory["used_peak_bytes"] == found.trace.used_peak_bytes
    assert found.words in memory["origin"]


def test_a_stage_of_deepseek_that_has_as_many_layers_as_micro_batches_is_as_its_own_run(tmp_path: Path) -> None:
    """With the parallel optimizer, which exchanges once a layer behind the last pass."""
    number, offset = "model.model_config.num_hidden_layers", "model.model_config.offset"
    fourth, sixth = ({number: 11, offset: [3 * (at == stage) for at in range(8)]} for stage in (3, 5))
    of_rank(DEEPSEEK, 12, tmp_path / "ten", 8, 10, {**AS_PUBLISHED, **fourth})
    of_rank(DEEPSEEK, 20, tmp_path / "four", 8, 4, {**AS_PUBLISHED, **sixth})
    run, truth = source(tmp_path / "ten" / "rank_12"), source(tmp_path / "four" / "rank_20")
    assert sum(truth.lengths) == sum(run.lengths) == truth.micro_batches == 4
    found = composed(truth.stage, [run])
    assert len(found.trace.kernels) == len(truth.trace.kernels)
    assert peaks(found.trace) == pytest.approx(peaks(truth.trace), rel=CLOSE)
    assert found.graph is not None
    names = [found.graph.name[node] for node in launched(found.graph)]
    ran = [kernel.name for kernel in found.trace.step if not kernel.is_event]
    assert names == ran[: len(names)]  # what the learning rate launches behind them is of other graphs
    assert max(layer_in(name) for name in names) < 11
