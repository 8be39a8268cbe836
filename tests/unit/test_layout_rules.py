"""Layouts that mindformers stops at are told before it does, at the right key; those that it trains are not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from swapconf.config.nodes import from_plain, nowhere
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding

MODEL = "model.model_config."
RANKS = "parallel_config."
DENSE = {"model_type": "qwen3", "architectures": "Qwen3ForCausalLM", "num_hidden_layers": 4}
EXPERTS = {"model_type": "qwen3_moe", "architectures": "Qwen3MoeForCausalLM", "num_hidden_layers": 4}
LATENT = {"model_type": "deepseek_v3", "architectures": "DeepseekV3ForCausalLM", "num_hidden_layers": 4}
LLAMA = {"type": "LlamaConfig", "num_layers": 4, "num_heads": 8, "use_flash_attention": True}
CUT = {"full_batch": False, "dataset_strategy": [[2, 1], [2, 1]]}
ZERO_BUBBLE = {"pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "zero_bubble_v"}}
TWO_STAGES = {"pipeline_stage": 2, "micro_batch_num": 8}
TIED = {"tie_word_embeddings": True}
PARTS = {"seq_split_num": 2}
SHARDS = {"parallel_optimizer_config": {"optimizer_weight_shard_size": 8}}


def told(
    ranks: dict[str, Any],
    model: dict[str, Any],
    parallel: dict[str, Any] | None = None,
    mindformers: str = "1.9.0",
    **top: Any,
) -> tuple[Finding, ...]:
    legacy = model.get("type") == "LlamaConfig"
    values = {
        "use_legacy": legacy,
        "use_parallel": True,
        "parallel": {"parallel_mode": 1, **(parallel or {})},
        "parallel_config": {"pipeline_stage": 1, **ranks},
        "model": {"model_config": model, **({"arch": {"type": "LlamaForCausalLM"}} if legacy else {})},
        **top,
    }
    return study_document(from_plain(values, nowhere()), Versions(mindformers=mindformers), {}).findings


def tensors(parts: int, **more: Any) -> dict[str, Any]:
    return {"model_parallel": parts, **more}


WRONG = [
    # one mistake each: (ranks, model, parallel, rule, severity, path)
    (tensors(3), {**DENSE, "num_attention_heads": 8}, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    (
        tensors(8),
        {**DENSE, "num_attention_heads": 8, "num_key_value_heads": 4},
        {},
        "tensor-parallel",
        "error",
        RANKS + "model_parallel",
    ),
    (tensors(3), {**LATENT, "num_attention_heads": 128}, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    (tensors(256), LATENT, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    (tensors(8), EXPERTS, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    ({"expert_parallel": 3}, EXPERTS, {}, "expert-parallel", "error", RANKS + "expert_parallel"),
    (tensors(3), {**LLAMA, "vocab_size": 32000}, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    (tensors(8), {**LLAMA, "n_kv_heads": 4}, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    (tensors(2), {**LLAMA, "intermediate_size": 11009}, {}, "tensor-parallel", "error", RANKS + "model_parallel"),
    (
        tensors(4, context_parallel=4, context_parallel_algo="ulysses_cp"),
        LLAMA,
        {},
        "tensor-parallel",
        "error",
        RANKS + "context_parallel",
    ),
    (tensors(2), {**DENSE, "vocab_size": 4097}, {}, "vocabulary-split", "error", MODEL + "vocab_size"),
    (
        tensors(2, data_parallel=2, use_seq_parallel=True),
        DENSE,
        {"enable_parallel_optimizer": True, **SHARDS},
        "optimizer-shard-size",
        "error",
        "parallel.parallel_optimizer_config.optimizer_weight_shard_size",
    ),
    (tensors(2), {**LLAMA, "vocab_size": 4097}, {}, "vocabulary-split", "note", MODEL + "vocab_size"),
    (TWO_STAGES, {**LLAMA, **TIED}, {}, "tied-embeddings", "error", MODEL + "tie_word_embeddings"),
    (PARTS, LLAMA, {}, "sequence-parts", "error", RANKS + "seq_split_num"),
    ({**TWO_STAGES, **PARTS}, {**LLAMA, "seq_length": 1023}, {}, "sequence-parts", "error", MODEL + "seq_length"),
    (
        {**TWO_STAGES, **PARTS},
        {**LLAMA, "use_eod_attn_mask_compression": True},
        {},
        "sequence-parts",
        "error",
        MODEL + "use_eod_attn_mask_compression",
    ),
    (tensors(1, use_seq_parallel=True), DENSE, {}, "sequence-parallel", "error", RANKS + "use_seq_parallel"),
    (
        tensors(2, use_seq_parallel=True),
        {**DENSE, "seq_length": 1023},
        {},
        "sequence-parallel",
        "error",
        MODEL + "seq_length",
    ),
    ({"data_parallel": 4}, DENSE, CUT, "dataset-strategy", "error", "parallel.dataset_strategy"),
    ({}, LLAMA, CUT, "dataset-strategy", "error", "parallel.dataset_strategy"),
    ({}, LLAMA, {"full_batch": False}, "dataset-strategy", "error", "parallel.full_batch"),
    ({}, LLAMA, {**CUT, "dataset_strategy": "data_parallel"}, "dataset-strategy", "error", "parallel.dataset_strategy"),
    (
        {"data_parallel": 2},
        LLAMA,
        {**CUT, "dataset_strategy": [2, 1]},
        "dataset-strategy",
        "error",
        "parallel.dataset_strategy",
    ),
    ({"expert_parallel": 2}, DENSE, {}, "expert-parallel", "error", RANKS + "expert_parallel"),
    (
        {"expert_parallel": 3, "data_parallel": 3},
        {**EXPERTS, "num_experts": 8},
        {},
        "expert-parallel",
        "error",
        RANKS + "expert_parallel",
    ),
    (
        {"expert_parallel": 4, "data_parallel": 2},
        {**EXPERTS, "num_experts": 8},
        {},
        "expert-parallel",
        "error",
        RANKS + "expert_parallel",
    ),
    (tensors(2), {**EXPERTS, "num_experts": 8}, {}, "sequence-parallel", "error", RANKS + "model_parallel"),
    (
        tensors(2, use_seq_parallel=False),
        {**EXPERTS, "num_experts": 8},
        {},
        "sequence-parallel",
        "error",
        RANKS + "use_seq_parallel",
    ),
    ({"context_parallel_algo": "hybrid_cp"}, DENSE, {}, "context-parallel", "error", RANKS + "context_parallel_algo"),
    (
        {"context_parallel": 2, "context_parallel_algo": "hybird_cp"},
        LLAMA,
        {},
        "context-parallel",
        "error",
        RANKS + "context_parallel_algo",
    ),
    (
        {"context_parallel": 4, "context_parallel_algo": "hybrid_cp", "ulysses_degree_in_cp": 3},
        {**LLAMA, "num_heads": 12},
        {},
        "context-parallel",
        "error",
        RANKS + "ulysses_degree_in_cp",
    ),
    (
        {"context_parallel": 2},
        {**DENSE, "use_flash_attention": False},
        {},
        "context-parallel",
        "error",
        MODEL + "use_flash_attention",
    ),
    ({"pipeline_stage": 4, "micro_batch_num": 2}, DENSE, {}, "micro-batches", "note", RANKS + "micro_batch_num"),
    (TWO_STAGES, DENSE, ZERO_BUBBLE, "zero-bubble", "error", "parallel.pipeline_config.pipeline_scheduler"),
    (
        {"pipeline_stage": 2, "micro_batch_num": 1},
        {**DENSE, "pp_interleave_num": 2},
        ZERO_BUBBLE,
        "zero-bubble",
        "error",
        RANKS + "micro_batch_num",
    ),
    *(
        (TWO_STAGES, DENSE, {"pipeline_config": given}, "pipeline-scheduler", "error", f"parallel.pipeline_config{key}")
        for given, key in (
            ({"pipeline_interleave": False, "pipeline_scheduler": "gpipe"}, ".pipeline_scheduler"),
            ({"pipeline_interleave": True, "pipeline_scheduler": "1f2b"}, ".pipeline_scheduler"),
            ({"pipeline_interleave": "False", "pipeline_scheduler": "1f1b"}, ".pipeline_interleave"),
            ({"pipeline_interleave": False, "pipeline_scheduler": "1f1b", "more": 1}, ".more"),
            ({"pipeline_scheduler": "seqpipe"}, ""),
            ({"pipeline_interleave": True}, ""),
            ({}, ""),
        )
    ),
]


@pytest.mark.parametrize(("ranks", "model", "parallel", "rule", "severity", "path"), WRONG)
def test_one_wrong_number_is_told_once_at_its_key(
    ranks: dict[str, Any], model: dict[str, Any], parallel: dict[str, Any], rule: str, severity: str, path: str
) -> None:
    found = [(one.rule, one.severity.value, one.origin.path) for one in told(ranks, model, parallel)]
    assert found == [(rule, severity, path)]


@pytest.mark.parametrize(
    ("ranks", "model", "parallel"),
    [
        (tensors(4), {**DENSE, "num_attention_heads": 8, "num_key_value_heads": 4}, {}),
        (tensors(4), {**DENSE, "num_attention_heads": 8, "num_key_value_heads": 9}, {}),  # no groups
        (tensors(8), {**LATENT, "num_attention_heads": 8, "num_key_value_heads": 4}, {}),
        (tensors(4, context_parallel=4), LLAMA, {}),  # the sequence is shared out, heads are not
        (tensors(3), {**LLAMA, "use_3d_tensor_parallel": True}, {}),
        (tensors(3), {"type": "ChatGLM2Config", "num_layers": 4, "num_heads": 32}, {}),
        (tensors(1, use_seq_parallel=True), LLAMA, {}),
        (tensors(2, use_seq_parallel=True), {**LLAMA, "seq_length": 1023}, {}),
        (tensors(2), {**DENSE, "seq_length": 1023}, {}),
        ({"data_parallel": 2}, DENSE, CUT),
        ({"data_parallel": 4}, DENSE, {**CUT, "full_batch": True}),
        ({"data_parallel": 4}, DENSE, {"dataset_strategy": [[2, 1]]}),
        ({"data_parallel": 2}, DENSE, {**CUT, "parallel_mode": 2}),
        (tensors(2, use_seq_parallel=True, expert_parallel=4, data_parallel=2), {**EXPERTS, "num_experts": 8}, {}),
        (tensors(2), {**LATENT, "first_k_dense_replace": 4}, {}),
        ({"context_parallel": 2, "context_parallel_algo": "hybrid_cp", "ulysses_degree_in_cp": 2}, LLAMA, {}),
        ({"pipeline_stage": 4, "micro_batch_num": 4}, DENSE, {}),
        ({"pipeline_stage": 4}, DENSE, {}),
        (TWO_STAGES, {**DENSE, "pp_interleave_num": 2}, ZERO_BUBBLE),
        (TWO_STAGES, {**DENSE, **TIED}, {}),
        (TWO_STAGES, {**LLAMA, **TIED, "disable_lazy_inline": True}, {}),
        ({}, {**LLAMA, **TIED}, {}),
        ({**TWO_STAGES, **PARTS}, {**LLAMA, "seq_length": 1024}, {}),
        (tensors(2, data_parallel=4, use_seq_parallel=True), DENSE, {"enable_parallel_optimizer": True, **SHARDS}),
        (tensors(2, data_parallel=2, use_seq_parallel=True), DENSE, SHARDS),
    ],
)
def test_nothing_is_told_of_what_mindformers_trains(
    ranks: dict[str, Any], model: dict[str, Any], parallel: dict[str, Any]
) -> None:
    ours = ("-parallel", "-split", "-strategy", "-batches", "-bubble", "-parts", "-size")
    assert [one.rule for one in told(ranks, model, parallel) if one.rule.endswith(ours)] == []


@pytest.mark.parametrize("layers", [True, [1, 0], [0, 0]])
def test_whole_layers_and_parts_of_sequences_are_not_trained_together(layers: object) -> None:
    found = told({**TWO_STAGES, **PARTS}, LLAMA, recompute_config={"recompute": layers}, calculate_per_token_loss=True)
    keys = [one.origin.path for one in found if one.rule == "sequence-parts"]
    assert sorted(keys) == ["calculate_per_token_loss", "recompute_config.recompute"]


@pytest.mark.parametrize(
    ("parallel", "top"),
    [
        ({}, {"use_parallel": False}),
        ({"parallel_mode": 0}, {}),
        ({"parallel_mode": "STAND_ALONE"}, {}),
        ({}, {"run_mode": "predict"}),
    ],
)
def test_nothing_is_told_where_every_degree_becomes_one(parallel: dict[str, Any], top: dict[str, Any]) -> None:
    model = {**DENSE, "num_attention_heads": 8, "vocab_size": 4097}
    found = told(tensors(3, expert_parallel=2), model, {**CUT, **parallel}, **top)
    assert {one.rule for one in found} <= {"setting-without-effect"}


def test_no_error_is_told_for_a_release_whose_checks_were_not_read() -> None:
    found = told(tensors(3), {**DENSE, "num_attention_heads": 8}, mindformers="1.6.0")
    assert "tensor-parallel" not in {one.rule for one in found}


def test_a_flat_list_of_recompute_is_refused_with_zero_bubble() -> None:
    model = {**DENSE, "pp_interleave_num": 2}
    flat = told(TWO_STAGES, model, ZERO_BUBBLE, recompute_config={"recompute": [1, 1]})
    nested = told(TWO_STAGES, model, ZERO_BUBBLE, recompute_config={"recompute": [[1, 1], [1, 1]]})
    assert [one.origin.path for one in flat if one.rule == "zero-bubble"] == ["recompute_config.recompute"]
    assert [one for one in nested if one.rule == "zero-bubble"] == []


def test_a_wrong_number_of_ranks_comes_with_those_that_fit() -> None:
    (found,) = told(tensors(3), {**DENSE, "num_attention_heads": 12, "num_key_value_heads": 4})
    assert found.hint == "give `model_parallel` one of 1, 2, 4"


@pytest.mark.parametrize("kind", [{"num_attention_heads": 8}, {"num_attention_heads": 12, "num_key_value_heads": 4}])
def test_a_wrong_number_of_ranks_is_not_told_of_what_else_they_share_out(kind: dict[str, int]) -> None:
    (found,) = told(tensors(3, use_seq_parallel=True), {**DENSE, **kind, "vocab_size": 4096, "seq_length": 1024})
    assert found.rule == "tensor-parallel"


def test_a_vocabulary_comes_with_its_padded_size() -> None:
    (found,) = told(tensors(8), {**DENSE, "vocab_size": 4097})
    assert "pad the vocabulary to 4104" in found.hint


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            told(tensors(3), {**DENSE, "num_attention_heads": 8}),
            "num_attention_heads (8) must be a multiple of tensor_model_parallel_size (3).",
        ),
        (told(tensors(2), {**DENSE, "vocab_size": 4097}), "numerator(4097) is not divisible by denominator(2)."),
        (told(tensors(1, use_seq_parallel=True), DENSE), "Can not use sequence parallelism without tensor parallelism"),
        (
            told(tensors(2, use_seq_parallel=True), {**DENSE, "seq_length": 1023}),
            "operator AddExt extract configured layout failed",
        ),
        (
            told(tensors(2), {**EXPERTS, "num_experts": 8}),
            "During training, performance may degrade if MoE and tensor parallelismare enabled without also enabling "
            "sequence parallelism.",
        ),
        (told({}, DENSE, CUT), "data_parallel 1 should be equal to dataset_strategy[0][0] 2."),
        (told({"expert_parallel": 2}, DENSE), "num_moe_experts must be non None to use expert-parallel."),
        (
            told({"context_parallel_algo": "hybrid_cp"}, DENSE),
            "And the Error info is: The context_parallel_algo hybrid_cp is not supported, context_parallel_algo only",
        ),
        (told({"context_parallel_algo": "hybird_cp"}, LLAMA), "'hybird_cp' is not a valid ContextParallelAlgo"),
        (
            told({"context_parallel": 2}, {**DENSE, "use_flash_attention": False}),
            "context_parallel is only available for flash attention for now, please set use_flash_attention=True.",
        ),
        (
            told(TWO_STAGES, DENSE, {"pipeline_config": {"pipeline_interleave": False, "pipeline_scheduler": "gpipe"}}),
            "When pipeline_interleave is False, 'gpipe' is not supported, only '1f1b' is allowed.",
        ),
        (told({"data_parallel": 2}, DENSE, {"enable_parallel_optimizer": True, **SHARDS}), "parallel init failed."),
        (told(TWO_STAGES, DENSE, {"pipeline_config": {"pipeline_interleave": True}}), "KeyError: 'pipeline_scheduler'"),
        (
            told(TWO_STAGES, DENSE, ZERO_BUBBLE),
            "When zero_bubble_v is enabled, pp_interleave_num must be set to 2. But get None.",
        ),
        (
            told({"pipeline_stage": 2, "micro_batch_num": 3}, {**DENSE, "pp_interleave_num": 2}, ZERO_BUBBLE),
            "When zero_bubble_v is enabled, micro_batch_num(3) >= 2 * stage_num(2) must be met.",
        ),
    ],
)
def test_the_words_of_mindformers_and_mindspore_lead_to_the_finding(found: tuple[Finding, ...], words: str) -> None:
    """As 1.9.0 and 2.9.0 say them: a dry run that stops with them points at the key and gives the remedy."""
    (one,) = found
    assert re.search(one.stops_with, words)


def test_a_size_that_nothing_gives_is_told_as_the_default() -> None:
    [found] = told(tensors(256), LATENT)
    assert "`num_attention_heads: 128` (by default)" in found.message


def test_what_a_folder_gives_is_not_taken_by_default() -> None:
    with_folder = told(tensors(256), LATENT, pretrained_model_dir="elsewhere")
    assert "tensor-parallel" not in {finding.rule for finding in with_folder}
