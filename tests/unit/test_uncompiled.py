"""Norms of queries and keys that MindSpore does not compile where they are recomputed by themselves."""

from __future__ import annotations

import pytest

from tests.unit.findings_of import QWEN3, found

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
