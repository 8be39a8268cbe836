"""setting-without-effect: told where a setting does nothing, and nowhere else."""

from __future__ import annotations

import re

import pytest

from swapconf.upstream.conditional import LINES_OF, TABLE
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Severity
from tests.unit.findings_of import found

RULE = "setting-without-effect"
MODEL = """\
model:
  model_config: {{type: LlamaConfig, num_layers: 4, use_flash_attention: True{sizes}}}
  arch: {{type: LlamaForCausalLM}}
"""


def told(text: str, sizes: str = "", mindformers: str = "1.9.0") -> list[Finding]:
    whole = text + "\n" + MODEL.format(sizes=f", {sizes}" if sizes else "")
    return [one for one in found(whole, Versions(mindformers=mindformers)) if one.rule == RULE]


def parallel(settings: str, more: str = "") -> str:
    return f"use_parallel: True\nparallel_config: {{{settings}}}\n{more}"


TENSORS = "model_parallel: 2, pipeline_stage: 1"
SPLIT = "micro_batch_interleave_num: 2"
SWAP = "swap_config: {swap: True}"
ACCUMULATED = "runner_config: {gradient_accumulation_steps: 2}"


@pytest.mark.parametrize(
    ("text", "sizes", "why"),
    [
        (parallel("pipeline_stage: 1, micro_batch_num: 2"), "", "`parallel_config.pipeline_stage` 2 or more"),
        (parallel("micro_batch_num: 2"), "", "and that is 1"),
        (parallel("pipeline_stage: 2", ACCUMULATED), "", "`parallel_config.pipeline_stage` 1 at most"),
        (parallel("model_parallel: 1", SPLIT), "", "`parallel_config.model_parallel` 2 or more"),
        (parallel(TENSORS, "micro_batch_interleave_num: 4"), "", "`micro_batch_interleave_num` 2, and that is 4"),
        (parallel(TENSORS, f"{SPLIT}\n{SWAP}"), "", "lazily inlined"),
        (parallel(TENSORS, f"{SPLIT}\n{ACCUMULATED}"), "", "lazily inlined"),
        (parallel("model_parallel: 2, pipeline_stage: 2", SPLIT), "", "lazily inlined"),
        (parallel("context_parallel_algo: ulysses_cp"), "", "`parallel_config.context_parallel` 2 or more"),
        (parallel("context_parallel: 2, ulysses_degree_in_cp: 2"), "", "that is colossalai_cp"),
        (parallel("optimizer_shard: True"), "", "nothing reads it"),
        (parallel("pipeline_stage: 2"), "pp_interleave_num: 2", "pipeline_interleave` True, and that is False"),
        (
            parallel("pipeline_stage: 1", "parallel: {pipeline_config: {pipeline_interleave: True}}"),
            "pp_interleave_num: 2",
            "`parallel_config.pipeline_stage` 2 or more",
        ),
        (parallel("pipeline_stage: 1"), "offset: [1]", "`parallel_config.pipeline_stage` 2 or more"),
        (parallel("model_parallel: 1"), "fine_grain_interleave: 2", "`parallel_config.model_parallel` 2 or more"),
        ("context: {deterministic: 'ON'}", "", "nothing reads it"),
        ("context: {jit_level: O1}", "", "nothing reads it"),
        ("context: {enable_graph_kernel: True}", "", "nothing reads it"),
        ("context: {memory_offload: 'ON'}", "", "nothing reads it"),
        ("use_parallel: False\nparallel_config: {pipeline_stage: 2}", "", "`use_parallel` True, and that is False"),
    ],
)
def test_what_does_nothing_is_told_with_what_it_needs(text: str, sizes: str, why: str) -> None:
    (finding,) = told(text, sizes)
    assert why in finding.message


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (parallel("pipeline_stage: 2, micro_batch_num: 2"), ""),
        (parallel("micro_batch_num: 1"), ""),
        (parallel("pipeline_stage: several, micro_batch_num: 2"), ""),
        (parallel("pipeline_stage: 1", ACCUMULATED), ""),
        (parallel(f"{TENSORS}, context_parallel: 2, context_parallel_algo: hybrid_cp, ulysses_degree_in_cp: 2"), ""),
        (parallel("context_parallel_algo: colossalai_cp, optimizer_shard: False, seq_split_num: 1"), ""),
        (
            parallel("pipeline_stage: 2", "parallel: {pipeline_config: {pipeline_interleave: True}}"),
            "pp_interleave_num: 2",
        ),
        (parallel("pipeline_stage: 1"), "offset: 0"),
        (parallel("pipeline_stage: 1"), "offset: [0, 0]"),
        ("context: {deterministic: 'OFF', jit_level: '', enable_graph_kernel: False}", ""),
        ("train_precision_sync: True\ncontext: {deterministic: 'ON'}", ""),
        ("context: {jit_level: O1, jit_config: {jit_level: O0}}", ""),
        ("parallel_config: {data_parallel: 8, model_parallel: 1, pipeline_stage: 2}", ""),
        ("use_parallel: False\nparallel_config: {data_parallel: 1, micro_batch_num: 1}", ""),
        ("micro_batch_interleave_num: {a: 1}\nparallel_config: [1]", ""),
    ],
)
def test_what_counts_and_what_asks_for_nothing_is_not_told(text: str, sizes: str) -> None:
    assert told(text, sizes) == []


def test_what_lacks_one_thing_is_told_together_and_as_the_worst_of_it() -> None:
    text = "use_parallel: False\nparallel_config: {data_parallel: 4, pipeline_stage: 2, micro_batch_num: 2}"
    (finding,) = told(text)
    assert finding.severity is Severity.WARNING
    assert "`pipeline_stage: 2`, `data_parallel: 4`, `micro_batch_num: 2`" in finding.message
    (alone,) = told("use_parallel: False\nparallel_config: {data_parallel: 4}")
    assert alone.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("text", "before", "since"),
    [("context: {deterministic: 'ON'}", "1.8.0", "1.9.0"), ("context: {jit_level: O1}", "1.8.0", "1.9.0")],
)
def test_what_older_releases_read_is_told_of_later_ones_alone(text: str, before: str, since: str) -> None:
    assert told(text, mindformers=before) == []
    assert len(told(text, mindformers=since)) == 1


def test_a_level_that_is_not_read_is_not_judged() -> None:
    text = "swap_config: {swap: True}\ncontext: {jit_level: O2}\n" + MODEL.format(sizes="")
    judged = {
        version: "unsupported-runtime" in {one.rule for one in found(text, Versions(mindformers=version))}
        for version in ("1.8.0", "1.9.0")
    }
    assert judged == {"1.8.0": True, "1.9.0": False}


@pytest.mark.parametrize("mode", ["predict", "eval"])
def test_in_prediction_one_note_says_that_nothing_is_recomputed(mode: str) -> None:
    text = f"run_mode: {mode}\nparallel_config: {{micro_batch_num: 2}}\nrecompute_config: {{recompute: True}}"
    (finding,) = told(text)
    assert (finding.severity, finding.origin.path) == (Severity.NOTE, "recompute_config.recompute")
    assert told(text.replace("recompute: True", "recompute: False")) == []


def test_what_counts_until_swap_is_switched_on_is_a_note() -> None:
    (finding,) = told(parallel(TENSORS, SPLIT))
    assert (finding.severity, finding.origin.path) == (Severity.NOTE, "micro_batch_interleave_num")
    assert "counts here" in finding.message


def test_long_values_are_cut() -> None:
    (finding,) = told(parallel("pipeline_stage: 1"), f"offset: {[1] * 400}")
    assert len(finding.message) < 300


def test_every_line_is_one_of_the_release_that_it_is_told_for() -> None:
    for entry in TABLE:
        assert "MindSpore" in entry.source or re.fullmatch(r"[\w/]+\.py:\d+", entry.source)
        assert entry.hint
        assert entry.needs
    assert LINES_OF == "1.9.0"
