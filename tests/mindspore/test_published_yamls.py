"""YAMLs that others published, at their full width, with fewer layers and micro-batches and nothing else changed.

Those of the corpus are skipped where SWAPCONF_CORPUS names none; docs/evidence/published-yamls.md tells of all.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from published_yamls import of_file

from tests.helpers import CORPUS

pytestmark = pytest.mark.mindspore


FROM_CORPUS = {
    "glm4": "configs_glm4_finetune_glm4_9b.yaml",  # jit_level O1
    "llama3_1": "research_llama3_1_llama3_1_8b_finetune_llama3_1_8b.yaml",
    "qwen2_5": "research_qwen2_5_finetune_qwen2_5_0_5b_8k.yaml",
    "qwen3": "configs_qwen3_pretrain_qwen3_32b_4k.yaml",
    "qwen3_moe": "configs_qwen3_moe_pretrain_qwen3_30b_a3b_4k.yaml",
}
INSTALLED = {"telechat3": "telechat3/pretrain_telechat3_36b.yaml"}  # in the package of mindformers
TIMEOUT_SECONDS = 600.0


def installed(name: str) -> Path:
    import mindformers

    return Path(mindformers.__file__).parents[1] / "configs" / name


@pytest.mark.parametrize("family", [*FROM_CORPUS, *INSTALLED])
def test_a_published_yaml_runs_as_it_is_and_its_peak_is_mindspores_to_the_byte(family: str, tmp_path: Path) -> None:
    if family in INSTALLED:
        path = installed(INSTALLED[family])
    else:
        if CORPUS is None:
            pytest.skip("SWAPCONF_CORPUS is not set")
        path = CORPUS / "mindformers-r1.8.0" / FROM_CORPUS[family]
    row = of_file(path, tmp_path, TIMEOUT_SECONDS)
    assert row is not None
    assert row.report is not None, row.reason
    assert row.report.outcome.good, row.report.detail
    assert row.own_peak == row.report.used_peak_bytes
