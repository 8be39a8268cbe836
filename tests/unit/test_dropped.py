"""What mindformers alone drops does not count either, unless a comment or a setting has it count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swapconf.config.yaml_document import parse
from swapconf.decide import log_lines
from swapconf.decide.strategy import Recompute
from swapconf.plan.keys import bases
from swapconf.study import handed_over
from swapconf.study.settings import Settings
from swapconf.study.study import Study, study_document
from swapconf.upstream import dropped
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity
from tests.helpers import invoke

RULE = "plain-mindformers-differs"
MODEL = """\
run_mode: train
use_parallel: True
parallel: {parallel_mode: 1}
parallel_config: {data_parallel: 1, model_parallel: 2, pipeline_stage: 2, micro_batch_num: 4}
context: {mode: 0, device_target: Ascend, memory_optimize_level: O0}
model:
  arch: {type: LlamaForCausalLM}
  model_config: {type: LlamaConfig, num_layers: 4, hidden_size: 256, num_heads: 4, use_flash_attention: True}
"""
COMM = "recompute_config: {recompute: [2, 2], mp_comm_recompute: False}\n"
SLICE = "recompute_config: {recompute: [2, 2], recompute_slice_activation: True}\n"
SLICE_ALL = "recompute_config: {recompute: True, recompute_slice_activation: True}\n"
EXCLUDE = (
    "swap_config: {swap: True, op_swap: [{op_name: attention_norm, backward_prefetch: 2, layers: True}]}\n"
    "recompute_config: {recompute: True, select_recompute_exclude: {'feed_forward\\.mul': True}}\n"
)
REPEATED = (
    "recompute_config:\n  select_recompute: {'feed_forward\\.mul': [2, 2], 'attention\\.wo': [1, 1]}\n"
    "  select_recompute_exclude: {'feed_forward\\.m.*': [1, 0]}\n"
)


def study(sections: str, *keys: str, settings: tuple[str, ...] = ()) -> Study:
    comment = f"# swapconf: apply[{', '.join(keys)}]\n" if keys else ""
    document = parse(MODEL + comment + sections, "train.yaml")
    return study_document(document, Versions(), {}, Settings(apply=frozenset(settings)))


def options(made: Study) -> dict[str, bool]:
    assert made.strategy is not None
    return dict(made.strategy.recompute_options)


def told(made: Study) -> list[tuple[Severity, str]]:
    return [(found.severity, found.origin.path) for found in made.findings if found.rule == RULE]


@pytest.mark.parametrize(("sections", "key", "value"), [(COMM, dropped.MP_COMM, False), (SLICE, dropped.SLICE, True)])
def test_a_key_that_mindformers_drops_counts_only_where_that_is_asked_for(sections: str, key: str, value: bool) -> None:
    alone, asked, settled = study(sections), study(sections, key), study(sections, settings=(key,))
    assert options(alone) == {}
    assert options(asked) == options(settled) == {key: value}
    assert told(alone) == [(Severity.WARNING, f"recompute_config.{key}")]
    assert told(asked) == [(Severity.NOTE, f"recompute_config.{key}")]
    (line,) = log_lines.of_options(alone.config)
    assert "does not count" in line
    assert log_lines.of_options(asked.config) == (f"swapconf: {key}: {value} counts",)


def test_slices_of_recompute_true_count_as_with_mindformers() -> None:
    made = study(SLICE_ALL)
    assert options(made) == {dropped.SLICE: True}
    assert told(made) == []


def test_beside_swap_no_exclusion_counts_unless_that_is_asked_for() -> None:
    alone, asked = study(EXCLUDE), study(EXCLUDE, dropped.EXCLUDES["select_recompute"])
    assert told(alone) == [(Severity.WARNING, r"recompute_config.select_recompute_exclude.feed_forward\.mul")]
    assert told(asked)[0][0] is Severity.NOTE
    assert [recomputed(one, 0, "feed_forward.mul") for one in (alone, asked)] == [True, False]


def test_a_selection_that_an_exclusion_repeats_is_dropped_from_all_layers_unless_it_is_asked_to_count() -> None:
    alone, asked = study(REPEATED), study(REPEATED, dropped.EXCLUDES["select_recompute"])
    assert [recomputed(alone, layer, "feed_forward.mul") for layer in range(4)] == [False] * 4
    assert [recomputed(asked, layer, "feed_forward.mul") for layer in range(4)] == [False, True, True, True]
    assert all(recomputed(alone, layer, "attention.wo.matmul") for layer in (0, 2))
    assert told(alone) == [(Severity.WARNING, r"recompute_config.select_recompute.feed_forward\.mul")]


def recomputed(made: Study, layer: int, path: str) -> bool:
    assert made.strategy is not None
    return isinstance(made.strategy.layers[layer].plan.decisions[path].action, Recompute)


def test_explain_shows_what_is_dropped_and_the_line_that_a_worker_logs(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(MODEL + COMM, encoding="utf-8")
    shown = invoke("explain", file)
    assert "mp_comm_recompute: False does not count" in shown.output
    record: Any = json.loads(invoke("explain", file, "--format", "json").stdout)
    assert record["recompute_options"] == {}
    file.write_text(MODEL + EXCLUDE, encoding="utf-8")
    assert "Skip select recompute exclude at layer 0" in invoke("explain", file).output


def test_a_comment_that_names_no_key_that_is_dropped_is_an_error() -> None:
    wrong = [found for found in study(COMM, "mp_comm").findings if found.rule == "apply-comment"]
    assert [(found.severity, found.origin.line) for found in wrong] == [(Severity.ERROR, MODEL.count("\n") + 1)]
    assert "mp_comm_recompute" in wrong[0].hint
    assert any(
        found.rule == "apply-comment"
        for found in study_document(parse(MODEL + "# swapconf: apply\n", "t.yaml"), Versions(), {}).findings
    )


def test_a_setting_that_names_no_such_key_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".swapconf.toml").write_text('apply = ["mp_comm"]\n', encoding="utf-8")
    (tmp_path / "train.yaml").write_text(MODEL, encoding="utf-8")
    answer = invoke("check", tmp_path / "train.yaml")
    assert answer.exit_code == 1
    assert ".swapconf.toml:1:1  apply: error: `mp_comm` is no key that mindformers drops" in answer.output


def test_a_dry_runs_child_is_handed_what_counts(tmp_path: Path) -> None:
    document = parse(MODEL, "train.yaml")
    handed_over.write(tmp_path / "source.json", document, Settings(apply=frozenset({dropped.SLICE})))
    _, settings = handed_over.read(tmp_path / "source.json", document)
    assert settings.apply == {dropped.SLICE}


def test_a_plan_also_tries_the_keys_that_count_at_their_default() -> None:
    assert not list(bases(study(COMM).config))
    (base,) = bases(study(COMM, dropped.MP_COMM).config)
    assert base.recompute.mp_comm_recompute
    assert not list(bases(study(SLICE).config))
    (base,) = bases(study(SLICE_ALL).config)
    assert not base.recompute.recompute_slice_activation


def test_lists_that_mindformers_alone_takes_as_counts_of_more_layers_stop_a_run() -> None:
    qwen3 = (
        MODEL[: MODEL.index("model:")]
        + "use_legacy: False\nmodel: {model_config: {model_type: qwen3, num_layers: 4}}\n"
    )
    swap = "swap_config: {swap: True}\n"
    for sections, severity in (
        (f"{swap}recompute_config: {{recompute: [2, 2]}}\n", Severity.ERROR),
        (f"{swap}recompute_config: {{recompute: [1, 3]}}\n", Severity.NOTE),  # no stage has three layers
    ):
        found = study_document(parse(qwen3 + sections, "t.yaml"), Versions(), {}).findings
        assert [one.severity for one in found if one.rule == "R3-list-meaning"] == [severity]
