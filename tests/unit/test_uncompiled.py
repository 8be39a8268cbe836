"""Norms of queries and keys that MindSpore does not compile where they are recomputed by themselves."""

from __future__ import annotations

import pytest

from tests.unit.findings_of import LLAMA, QWEN3, found

RULE = "does-not-compile"
HEADS, GROUPED = ", num_attention_heads: 4", ", num_attention_heads: 4, num_key_value_heads: 2"
STAGES, WHOLE = "pipeline_stage: 2", "pipeline_stage: 1"


def stops(norm: str, heads: str = "", stages: str = STAGES, swap: bool = False) -> bool:
    layers = "[0, 1, 2, 3]" if swap else "True"
    text = QWEN3.replace("num_hidden_layers: 4", f"num_hidden_layers: 4{heads}")
    text = text.replace(STAGES, stages)
    text += f"recompute_config: {{select_recompute: {{'self_attention\\.{norm}': {layers}}}}}\n"
    text += f"swap_config: {{swap: {swap}}}\n"
    return any(finding.rule == RULE for finding in found(text))


@pytest.mark.parametrize("heads", ["", HEADS, GROUPED])
def test_the_norm_of_keys_does_not(heads: str) -> None:
    assert stops("k_layernorm", heads)


@pytest.mark.parametrize(("heads", "found"), [("", True), (HEADS, True), (GROUPED, False)])
def test_that_of_queries_does_not_where_each_has_its_own_key(heads: str, found: bool) -> None:
    assert stops("q_layernorm", heads) is found


@pytest.mark.parametrize("norm", ["q_layernorm", "k_layernorm"])
def test_both_are_compiled_without_lazy_inline(norm: str) -> None:
    assert not stops(norm, HEADS, WHOLE)
    assert stops(norm, HEADS, WHOLE, swap=True)


GLM = """\
runner_config: {gradient_accumulation_steps: ACCUMULATED}
parallel: {parallel_mode: 1}
parallel_config: {data_parallel: 8, model_parallel: 1, pipeline_stage: STAGES, micro_batch_num: 2}
model:
  model_config: {type: ChatGLM2Config, num_layers: 4, num_attention_heads: 4, use_flash_attention: True}
  arch: {type: ChatGLM2ForConditionalGeneration}
use_parallel: True
recompute_config: {select_recompute: {'self_attention\\.PATH': True}}
"""


@pytest.mark.parametrize(
    ("path", "stages", "accumulated", "stops"),
    [
        ("flash_attention", 2, 1, True),
        ("flash_attention", 1, 2, True),
        ("flash_attention", 1, 1, False),
        ("flash_attention\\.flash_attention", 2, 1, False),
        ("dense", 2, 1, False),
    ],
)
def test_flash_attention_of_glm_does_not_with_lazy_inline(
    path: str, stages: int, accumulated: int, stops: bool
) -> None:
    text = GLM.replace("PATH", path).replace("STAGES", str(stages)).replace("ACCUMULATED", str(accumulated))
    assert any(finding.rule == RULE for finding in found(text)) is stops


def test_that_of_llama_does() -> None:
    text = LLAMA + "recompute_config: {select_recompute: {'attention\\.flash_attention': True}}\n"
    assert not any(finding.rule == RULE for finding in found(text))
