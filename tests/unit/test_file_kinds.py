"""Files that share a section with a training YAML and are none: one note, and nothing that would be wrong of them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from swapconf.checking.find import is_training
from swapconf.cli.main import main
from swapconf.config.yaml_document import parse
from swapconf.words.findings import Severity
from tests.unit.findings_of import found, of, only

COUNTS = "[0, 0, 1, 0, 0, 0, 0, 1]"
BALANCE = f"recompute_config: {{recompute: False, select_recompute: {COUNTS}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "pipeline_config: {pipeline_num: 8, num_layer: 32}\n" + BALANCE,
        BALANCE + "time_config: {head: 26, body: 111, tail: 138}\n",
        BALANCE + "memory_usage: {head_memory: 1, body_memories: {stage_id: [1], memories: [2]}, tail_memory: 3}\n",
        "pipeline_config: {pipeline_num: 4, num_layer: 62}\nrecompute_config: {select_recompute: [[1, 2], [1, 3]]}\n",
        "profiling_config: {head_layers: [a], body_layers: [b], tail_layers: [c]}\nmodel_type: llama\n",
        f"manual1: {{offset: {COUNTS}, recompute: False, select_recompute: {COUNTS}, interleave_num: 1}}\n",
        "training_config: {seed: 42}\nparallel_config: {tensor_model_parallel_size: [2, 2]}\nrecompute_config: {a: 1}",
        "swap: {size: 2G}\nhosts: all\n",
        "recompute: {rows: [1, 2]}\njobs: {build: {steps: [a]}}\n",
        "swap_config: {size_gib: 4, device: /dev/sdb}\n",
    ],
)
def test_a_file_of_another_tool_is_one_note(text: str) -> None:
    assert (only(text).rule, only(text).severity) == ("other-file", Severity.NOTE)
    assert only(text).origin.line == 1
    assert not is_training(parse(text, "f.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "swap_config: {swop: True}\n",
        "swap: {enabel: True}\n",
        "recompute_config: {recompute: True, b: 1}\n",
        "recompute_config: {rows: 1}\nparallel_config: {pipeline_stage: 2}\n",
        "recompute_config: {rows: 1}\nrunner_confg: {epochs: 2}\n",
    ],
)
def test_what_may_be_a_mistake_in_a_training_is_judged(text: str) -> None:
    assert {one.rule for one in found(text)} >= {"unknown-key"}
    assert "other-file" not in {one.rule for one in found(text)}


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\nspec: {containers: []}\n",
        "on: push\njobs: {}\n",
        "data_loader: {type: MindDataset}\nbatch_size: 4\n",
        "profile_level: level1\nprofile_memory: True\n",
        "src_strategy_path: a\ndst_strategy_path: b\n",
        "run_mode: export\nmodel: {model_config: {type: LlamaConfig, num_layers: 4}, arch: {type: LlamaForCausalLM}}\n",
    ],
)
def test_what_has_none_of_our_sections_is_not_spoken_of(text: str) -> None:
    assert found(text) == ()


def test_counts_without_stages_are_no_error() -> None:
    finding = only(f"recompute_config: {{recompute: {COUNTS}}}\nrun_mode: train\n" + _MODEL)
    assert (finding.rule, finding.severity) == ("recompute-count", Severity.WARNING)
    assert "gives none" in finding.message


def test_counts_beside_a_section_that_could_say_more_are_an_error() -> None:
    text = f"recompute_config: {{recompute: {COUNTS}}}\nparallel_config: {{data_parallel: 2}}\n" + _MODEL
    assert of(text, "recompute-count").severity is Severity.ERROR


_MODEL = "model: {model_config: {type: LlamaConfig, num_layers: 8}, arch: {type: LlamaForCausalLM}}\n"


def test_commands_that_need_a_training_say_what_the_file_is(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("balance") / "f.yaml"
    file.write_text("pipeline_config: {pipeline_num: 8, num_layer: 32}\n" + BALANCE)
    for words in (["explain"], ["dryrun"], ["plan", "--budget", "50GB"], ["migrate", "--to", "pynative"]):
        done = CliRunner().invoke(main, [words[0], str(file), *words[1:]], env={"SWAPCONF_LANG": "en"})
        assert done.exit_code in (1, 2), words
        assert "pipeline-balance tool" in done.output
