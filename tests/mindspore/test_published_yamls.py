"""YAMLs that others published, at their full width, with fewer layers and micro-batches and nothing else changed.

Those of the corpus are skipped where SWAPCONF_CORPUS names none; docs/evidence/published-yamls.md tells of all, and
docs/evidence/never-worse.md of all that were run by mindformers alone as well.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from never_worse import MOST, step_us
from published_yamls import Row, of_file

from swapconf.config import overrides
from swapconf.dryrun.fold import folded
from swapconf.dryrun.outcome import RankReport
from swapconf.dryrun.rank_order import RankOrder
from tests.helpers import CORPUS, ROOT, scratch

pytestmark = pytest.mark.mindspore


FROM_CORPUS = {
    "glm4": "configs_glm4_finetune_glm4_9b.yaml",  # jit_level O1
    "llama3_1": "research_llama3_1_llama3_1_8b_finetune_llama3_1_8b.yaml",
    "qwen2_5": "research_qwen2_5_finetune_qwen2_5_0_5b_8k.yaml",
    "qwen3": "configs_qwen3_pretrain_qwen3_32b_4k.yaml",
    "qwen3_moe": "configs_qwen3_moe_pretrain_qwen3_30b_a3b_4k.yaml",
}
INSTALLED = {"telechat3": "telechat3/pretrain_telechat3_36b.yaml"}  # in the package of mindformers
FIRST = "qwen3"
OTHERS = [family for family in (*FROM_CORPUS, *INSTALLED) if family != FIRST]
TIMEOUT_SECONDS = 600.0
SWAPPED = ROOT / "configs/llama2_7b/example4_swap_with_recompute.yaml"
EXCLUDED = (  # what mindformers drops beside swap, and what would keep more in memory than it does
    "model.model_config.num_layers=2",
    "swap_config={swap: True, op_swap: [{op_name: attention, backward_prefetch: 2, layers: [1]}]}",
    "recompute_config={recompute: True, select_recompute_exclude: {'feed_forward\\.mul': True}}",
)


def installed(name: str) -> Path:
    import mindformers

    return Path(mindformers.__file__).parents[1] / "configs" / name


def published(family: str) -> Path:
    if family in INSTALLED:
        return installed(INSTALLED[family])
    if CORPUS is None:
        pytest.skip("SWAPCONF_CORPUS is not set")
    return CORPUS / "mindformers-r1.8.0" / FROM_CORPUS[family]


@cache
def ran(family: str) -> Row:
    row = of_file(published(family), scratch("published") / family, TIMEOUT_SECONDS)
    assert row is not None
    return row


@pytest.mark.parametrize("family", [FIRST, *(pytest.param(other, marks=pytest.mark.thorough) for other in OTHERS)])
def test_a_published_yaml_runs_as_it_is_and_its_peak_is_mindspores_to_the_byte(family: str) -> None:
    row = ran(family)
    assert row.report is not None, row.reason
    assert row.report.outcome.good, row.report.detail
    assert row.own_peak == row.report.used_peak_bytes


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["glm4", "telechat3"])  # one drops slices, the other `mp_comm_recompute`
def test_a_published_yaml_needs_no_more_than_with_mindformers_alone(family: str) -> None:
    row, keep = ran(family), scratch("published-plain") / family
    assert row.report is not None
    plain = dry_run(published(family), row.changes, keep, plain=True)
    assert_no_worse(plain, keep, row.report, scratch("published") / family)


@pytest.mark.thorough
def test_exclusions_beside_swap_need_no_more_than_with_mindformers_alone(tmp_path: Path) -> None:
    alone, ours = (dry_run(SWAPPED, EXCLUDED, tmp_path / str(plain), plain=plain) for plain in (True, False))
    assert_no_worse(alone, tmp_path / "True", ours, tmp_path / "False")


def dry_run(path: Path, changes: tuple[str, ...], keep: Path, *, plain: bool) -> RankReport:
    document = overrides.of_file(str(path), changes)
    return folded.dry_run(RankOrder(document=document, rank=0, keep=keep, timeout_seconds=TIMEOUT_SECONDS, plain=plain))


def assert_no_worse(alone: RankReport, kept_alone: Path, ours: RankReport, kept_ours: Path) -> None:
    assert alone.outcome.good, alone.detail
    assert ours.outcome.good, ours.detail
    assert alone.used_peak_bytes is not None
    assert ours.used_peak_bytes is not None
    assert ours.used_peak_bytes <= alone.used_peak_bytes * (1 + MOST)
    before, after = step_us(kept_alone / "rank_0", 0), step_us(kept_ours / "rank_0", 0)
    assert before is not None
    assert after is not None
    assert after <= before
