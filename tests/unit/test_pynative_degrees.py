"""Degrees of a PyNative YAML that do not go into what they share out, each told at its key."""

from __future__ import annotations

import pytest

from swapconf.config.yaml_document import parse
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity

OLDER = Versions(mindspore="2.10.0", mindformers="2.0.0")
NEWER = Versions(mindspore="2.10.0", mindformers="2.1.0")
RULES = {
    f"pynative-{name}"
    for name in ("batch", "context-parts", "context-rope", "experts", "heads", "short-mask", "shards", "stage-layers")
}
MODEL = (
    "model_type: deepseek_v3, num_hidden_layers: 6, num_attention_heads: 16, n_routed_experts: 16, seq_length: 4096, "
    "use_attn_mask_compression: True"
)
QWEN3 = "model_type: qwen3, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 2"


def told(parallelism: str, model: str = MODEL, batch: str = "global_batch_size: 64", newer: bool = True) -> list[str]:
    """Rule and key of each error."""
    text = (
        f"training: {{{batch}}}\ncontext: {{mode: 1}}\n"
        f"parallelism: {{sequence_parallel: True, {parallelism}}}\nmodel: {{{model}}}\n"
    )
    study = study_document(parse(text, "t.yaml"), NEWER if newer else OLDER, {})
    found = [one for one in study.findings if one.rule in RULES and one.severity is Severity.ERROR]
    assert all(finding.origin.line for finding in found)
    return [f"{finding.rule} {finding.origin.path.rpartition('.')[2]}" for finding in found]


LIST = "pipeline_parallel: 2, pipeline_parallel_layers_per_stage"


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        ("pipeline_parallel: 3", []),
        ("pipeline_parallel: 4", ["pynative-stage-layers pipeline_parallel"]),
        ("pipeline_parallel: 2, pipeline_parallel_interleave_num: 3", []),
        ("pipeline_parallel: 2, pipeline_parallel_interleave_num: 2", ["pynative-stage-layers pipeline_parallel"]),
        ("pipeline_parallel_interleave_num: 4", []),
        (f"{LIST}: auto", []),
        (f"{LIST}: null", ["pynative-stage-layers pipeline_parallel_layers_per_stage"]),
        ("pipeline_parallel_layers_per_stage: null", []),
        (f"{LIST}: ['0-3', '4-5']", []),
        (f"{LIST}: ['0-5']", ["pynative-stage-layers pipeline_parallel_layers_per_stage"]),
        (f"{LIST}: ['0-1,4', '2-3']", ["pynative-stage-layers pipeline_parallel_layers_per_stage"]),
        (f"{LIST}: ['0,2-3', '1,4-5'], pipeline_parallel_interleave_num: 2", []),
        ("context_parallel: 4", []),
        ("context_parallel: 3", ["pynative-context-parts context_parallel"]),
        ("context_parallel: 2, context_parallel_method: ring", ["pynative-context-parts context_parallel_method"]),
        ("context_parallel_method: ring", []),
        ("context_parallel: 4, context_parallel_method: ulysses, ulysses_degree_in_cp: 4", []),
        (
            "context_parallel: 4, context_parallel_method: ulysses, ulysses_degree_in_cp: 2",
            ["pynative-context-parts ulysses_degree_in_cp"],
        ),
        ("context_parallel: 4, context_parallel_method: hybrid, ulysses_degree_in_cp: 2", []),
        (
            "context_parallel: 4, context_parallel_method: hybrid, ulysses_degree_in_cp: 4",
            ["pynative-context-parts ulysses_degree_in_cp"],
        ),
        ("context_parallel: 4, context_parallel_method: hybrid", ["pynative-context-parts context_parallel_method"]),
        ("context_parallel: 2, context_parallel_async: True", ["pynative-context-parts context_parallel_async"]),
        ("data_parallel_shard: 2, expert_parallel: 4", ["pynative-experts expert_parallel"]),
        ("data_parallel_shard: 2, context_parallel: 2, expert_parallel: 4", []),
        ("data_parallel_shard: -1, expert_parallel: 16", []),
        ("expert_parallel: 5", ["pynative-experts expert_parallel"]),
        ("moe_token_dispatcher_type: alltoall_deredundancy", ["pynative-experts moe_token_dispatcher_type"]),
        ("moe_token_dispatcher_type: alltoall_deredundancy, expert_parallel: 8", []),
        ("moe_token_dispatcher_type: alltoall_deredundancy, npu_nums_per_device: 4, expert_parallel: 4", []),
        ("data_parallel_shard: 0", ["pynative-shards data_parallel_shard"]),
        ("data_parallel_shard: -2", []),
        ("data_parallel_shard: 8, dense_fsdp_shard_size: 4", []),
        ("data_parallel_shard: 8, dense_fsdp_shard_size: 3", ["pynative-shards dense_fsdp_shard_size"]),
        ("data_parallel_shard: 8, dense_fsdp_shard_size: 0", ["pynative-shards dense_fsdp_shard_size"]),
        ("dense_fsdp_shard_size: 3", []),
        ("data_parallel_shard: two, expert_parallel: many, pipeline_parallel_layers_per_stage: {}", []),
    ],
)
def test_what_a_degree_does_not_go_into_is_told_at_its_key_for_both_releases(
    parallelism: str, expected: list[str]
) -> None:
    assert told(parallelism) == expected
    assert told(parallelism, newer=False) == expected


@pytest.mark.parametrize(
    ("parallelism", "model", "expected"),
    [
        ("tensor_parallel: 2", QWEN3, []),
        ("tensor_parallel: 4", QWEN3, ["pynative-heads tensor_parallel"]),
        ("tensor_parallel: 4", f"{QWEN3}, num_query_groups: 4", ["pynative-heads tensor_parallel"]),
        ("tensor_parallel: 4", QWEN3.partition(", num_key")[0], []),
        ("tensor_parallel: 4", f"{MODEL}, num_key_value_heads: 2", []),
        ("tensor_parallel: 3", MODEL, ["pynative-heads tensor_parallel"]),
        ("tensor_parallel: 4, context_parallel: 4, context_parallel_method: ulysses", MODEL, []),
        (
            "tensor_parallel: 4, context_parallel: 8, context_parallel_method: ulysses",
            MODEL,
            ["pynative-heads context_parallel"],
        ),
        ("tensor_parallel: 4, context_parallel: 8", MODEL, []),
        (
            "tensor_parallel: 8, context_parallel: 16, context_parallel_method: hybrid, ulysses_degree_in_cp: 4",
            MODEL,
            ["pynative-heads ulysses_degree_in_cp"],
        ),
    ],
)
def test_heads_that_ranks_cannot_share_are_told_for_2_1_which_looks_at_them(
    parallelism: str, model: str, expected: list[str]
) -> None:
    assert told(parallelism, model) == expected
    assert told(parallelism, model, newer=False) == []


BATCH = ["pynative-batch global_batch_size"]


@pytest.mark.parametrize(
    ("parallelism", "batch", "newer", "older"),
    [
        ("data_parallel_shard: 8", "global_batch_size: 16, local_batch_size: 2", [], []),
        ("data_parallel_shard: 8", "global_batch_size: 8, local_batch_size: 2", BATCH, BATCH),
        ("data_parallel_shard: 8", "global_batch_size: 20, local_batch_size: 2", BATCH, []),
        ("data_parallel_shard: -1", "global_batch_size: 2, local_batch_size: 2", [], []),
        ("data_parallel_shard: -1", "global_batch_size: 3, local_batch_size: 2", BATCH, []),
        ("data_parallel_shard: -1", "global_batch_size: 1, local_batch_size: 2", BATCH, BATCH),
        ("data_parallel_shard: 8", "local_batch_size: 1", ["pynative-batch training"], ["pynative-batch training"]),
        ("data_parallel_shard: 8", "global_batch_size: many", [], []),
    ],
)
def test_a_batch_that_ranks_cannot_share_is_told_as_each_release_looks_at_it(
    parallelism: str, batch: str, newer: list[str], older: list[str]
) -> None:
    assert told(parallelism, batch=batch) == newer
    assert told(parallelism, batch=batch, newer=False) == older


@pytest.mark.parametrize(
    ("model", "parallelism", "expected"),
    [
        ("seq_length: 1024, use_attn_mask_compression: True", "", ["pynative-short-mask use_attn_mask_compression"]),
        (
            "seq_length: 1024, use_eod_attn_mask_compression: True",
            "context_parallel: 2",
            ["pynative-short-mask use_eod_attn_mask_compression"],
        ),
        ("seq_length: 2048, use_attn_mask_compression: True", "", []),
        ("seq_length: 1024, use_attn_mask_compression: False", "", []),
        ("use_attn_mask_compression: True", "", []),
    ],
)
def test_a_sequence_shorter_than_its_compressed_mask_is_told_on_one_card_too(
    model: str, parallelism: str, expected: list[str]
) -> None:
    assert told(parallelism, f"model_type: qwen3, {model}") == expected
    assert told(parallelism, f"model_type: qwen3, {model}", newer=False) == expected


@pytest.mark.parametrize(
    ("parallelism", "noted"),
    [
        ("data_parallel_shard: -1, expert_parallel: 8", "parallelism.data_parallel_shard"),
        ("dense_fsdp_shard_size: 2", "parallelism.dense_fsdp_shard_size"),
        ("data_parallel_shard: 8, expert_parallel: 8", ""),
        ("data_parallel_shard: -1", ""),
    ],
)
def test_a_degree_that_depends_on_the_cards_of_the_launch_is_noted_as_not_checked(parallelism: str, noted: str) -> None:
    text = f"training: {{global_batch_size: 8}}\nparallelism: {{{parallelism}}}\nmodel: {{num_hidden_layers: 4}}\n"
    study = study_document(parse(text, "t.yaml"), NEWER, {})
    found = [finding for finding in study.findings if finding.rule == "pynative-shards"]
    assert [(one.severity, one.origin.path) for one in found] == ([(Severity.NOTE, noted)] if noted else [])
    assert all("is not checked" in one.message for one in found)


ROPE = "model_type: qwen3, seq_length: 4096, apply_rope_fusion"


@pytest.mark.parametrize(
    ("parallelism", "model", "expected"),
    [
        ("context_parallel: 2", f"{ROPE}: True", ["pynative-context-rope apply_rope_fusion"]),
        ("context_parallel: 2", f"{ROPE}: False", []),
        ("context_parallel: 1", f"{ROPE}: True", []),
        ("context_parallel: 2", f"{ROPE}: True, use_eod_attn_mask_compression: True", []),
        ("context_parallel: 2", f"{ROPE}: True, experimental_attention_variant: dsa", []),
        ("context_parallel: 2", f"{ROPE}: True, position_embedding_type: none", []),
    ],
)
def test_fused_rotary_embeddings_are_told_where_ranks_have_parts_of_a_sequence(
    parallelism: str, model: str, expected: list[str]
) -> None:
    assert told(parallelism, model) == expected
    assert told(parallelism, model, newer=False) == expected


def test_a_key_that_lies_below_mindformers_is_told_with_what_it_is_there() -> None:
    text = "training: {}\nrecompute: {mode: full, full_recompute_layer: ['0'], use_reentrant: True}\n"
    study = study_document(parse(text, "t.yaml"), OLDER, {})
    (found,) = (finding for finding in study.findings if finding.rule == "unknown-key")
    assert "always recompute with use_reentrant False" in found.hint


def test_a_module_for_which_communication_is_asked_again_is_told_by_an_operator_in_it() -> None:
    text = (
        "training: {global_batch_size: 8}\nrecompute_comm: {enable: True, select_module: {mlp: ['0']}}\n"
        "model: {model_type: qwen3, num_hidden_layers: 4}\n"
    )
    for versions in (OLDER, NEWER):
        study = study_document(parse(text, "t.yaml"), versions, {})
        (found,) = (finding for finding in study.findings if finding.rule == "pynative-no-match")
        assert "'mlp\\." in found.hint


@pytest.mark.parametrize(
    ("version", "key", "told"),
    [
        ("2.1.0", "tensor_paralel", "error: `tensor_parallel` was probably meant"),
        ("2.0.0", "expert_parallel_async_d2h", "error: it begins with mindformers 2.1.0; leave it out"),
        ("2.1.0", "expert_parallel_async_d2h", ""),
        ("2.1.0", "zzz", "error: leave it out"),
        ("2.9.0", "zzz", "warning: leave it out"),
        ("1.9.0", "zzz", "error: leave it out"),
        ("1.9.0", "expert_parallel_async_d2h", ""),
    ],
)
def test_a_key_that_mindformers_stops_at_is_told_with_what_was_meant(version: str, key: str, told: str) -> None:
    text = f"training: {{global_batch_size: 8}}\nparallelism: {{{key}: 2}}\nmodel: {{num_hidden_layers: 4}}\n"
    study = study_document(parse(text, "t.yaml"), Versions(mindspore="2.10.0", mindformers=version), {})
    found = [finding for finding in study.findings if finding.rule == "pynative-unknown-key"]
    assert [f"{one.severity.value}: {one.hint}" for one in found] == [told] * bool(told)
    assert all((one.origin.line, one.origin.path) == (2, f"parallelism.{key}") for one in found)
