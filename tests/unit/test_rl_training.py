"""YAMLs of RL training: what stands below `actor_config` and `ref_config` is checked with the model that it is for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.config.file_kinds import Kind
from swapconf.study.study import Study, study_file
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Severity

Written = Callable[..., Path]

MODEL = """\
model:
  model_config: {type: LlamaConfig, num_layers: 8, use_flash_attention: True}
  arch: {type: LlamaForCausalLM}
"""
GRPO = """\
rl_config: {use_parallel: True}
actor_config:
  model_config: ./model.yaml
  parallel_config: {pipeline_stage: 2, micro_batch_num: 2}
  recompute_config: {recompute: [1, 2]}
ref_config:
  model_config: ./model.yaml
  parallel_config: {pipeline_stage: 1}
generate_config:
  model_config: ./predict.yaml
  parallel_config: {pipeline_stage: 1}
"""


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def make(text: str = GRPO, model: str = MODEL, **others: str) -> Path:
        files = {"grpo.yaml": text, "model.yaml": model, **{f"{name}.yaml": said for name, said in others.items()}}
        for name, said in files.items():
            (tmp_path / name).write_text(said, encoding="utf-8")
        return tmp_path / "grpo.yaml"

    return make


def read(file: Path) -> Study:
    return study_file(file, Versions(), {})


def of(study: Study, rule: str) -> list[Finding]:
    return [found for found in study.findings if found.rule == rule]


def only(study: Study) -> Finding:
    (found,) = study.findings
    return found


def place(found: Finding) -> tuple[str, int, int, str]:
    return Path(found.origin.file).name, found.origin.line, found.origin.column, found.origin.path


def invoked(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"SWAPCONF_LANG": "en"})


def test_each_model_is_decided_with_its_own_sections(written: Written) -> None:
    study = read(written())
    assert (study.kind, study.findings, list(study.parts)) == (Kind.RL, (), ["actor_config", "ref_config"])
    actor, reference = study.parts["actor_config"], study.parts["ref_config"]
    assert actor.strategy is not None
    assert reference.strategy is not None
    recomputed = [entry.layer.index for entry in actor.strategy.layers if entry.plan.outcomes]
    assert recomputed == [0, 4, 5]
    assert (actor.config.pipeline.num_stages, reference.config.pipeline.num_stages) == (2, 1)


@pytest.mark.parametrize(
    ("before", "after", "rule", "where"),
    [
        ("[1, 2]", "[1, 2, 3]", "recompute-count", (5, 33, "actor_config.recompute_config.recompute")),
        ("[1, 2]", "[1, 9]", "recompute-count", (5, 33, "actor_config.recompute_config.recompute")),
        ("[1, 2]", "yess", "bad-type", (5, 33, "actor_config.recompute_config.recompute")),
        ("recompute: [", "recompte: [", "unknown-key", (5, 22, "actor_config.recompute_config.recompte")),
        (
            "recompute: [1, 2]",
            "select_recompute: {'nothing': True}",
            "op-no-match",
            (5, 41, "actor_config.recompute_config.select_recompute.nothing"),
        ),
        ("micro_batch_num: 2}", "seq_split_num: 2}\n  offset: [1, 1]", "stage-offset", (5, 3, "actor_config.offset")),
        (
            "pipeline_stage: 2, micro",
            "pipeline_stage: 1, micro",
            "setting-without-effect",
            (4, 40, "actor_config.parallel_config.micro_batch_num"),
        ),
    ],
)
def test_a_mistake_is_told_below_the_model_that_it_is_for(
    written: Written, before: str, after: str, rule: str, where: tuple[int, int, str]
) -> None:
    assert before in GRPO
    found = of(read(written(GRPO.replace(before, after))), rule)[0]
    assert place(found) == ("grpo.yaml", *where)


def test_a_mistake_in_the_yaml_of_the_model_is_told_there_once(written: Written) -> None:
    study = read(written(model=MODEL + "a: 1\na: 2\n"))
    assert place(only(study)) == ("model.yaml", 5, 1, "a")


def test_comments_of_both_files_silence(written: Written) -> None:
    silent = "  # swapconf: ignore[recompute-count, yaml-duplicate-key] for a test"
    text = GRPO.replace("[1, 2]}", f"[1, 9]}}{silent}")
    study = read(written(text, MODEL + f"a: 1\na: 2{silent}\n"))
    assert {found.rule for found in study.findings} == {"ignore-unused"}, "the other rule, in the RL YAML alone"


@pytest.mark.parametrize(
    ("text", "severity", "where"),
    [
        (GRPO + "swap_config: {swap: True}\n", Severity.ERROR, ("grpo.yaml", 12, 1, "swap_config")),
        (GRPO + "recompute_conf: {recompute: True}\n", Severity.ERROR, ("grpo.yaml", 12, 1, "recompute_conf")),
        (
            GRPO.replace("  recompute_config", "  swap_config: {swap: True}\n  recompute_config"),
            Severity.ERROR,
            ("grpo.yaml", 5, 3, "actor_config.swap_config"),
        ),
        (
            GRPO.replace("recompute_config", "recompute_confg"),
            Severity.ERROR,
            ("grpo.yaml", 5, 3, "actor_config.recompute_confg"),
        ),
        (
            GRPO.replace("[1, 2]", "[1, 2], select_recompute_exclude: {'feed_forward\\.mul': True}"),
            Severity.WARNING,
            ("grpo.yaml", 5, 41, "actor_config.recompute_config.select_recompute_exclude"),
        ),
        (
            GRPO.replace("generate_config", "  recompute_config: {recompute: True}\ngenerate_config"),
            Severity.NOTE,
            ("grpo.yaml", 9, 3, "ref_config.recompute_config"),
        ),
    ],
)
def test_what_mindrlhf_does_not_read_is_told(
    written: Written, text: str, severity: Severity, where: tuple[str, int, int, str]
) -> None:
    (found,) = of(read(written(text)), "rl-training")
    assert (found.severity, place(found)) == (severity, where)


def test_what_the_rl_yaml_replaces_is_told_in_the_yaml_of_the_model(written: Written) -> None:
    model = MODEL + "swap_config: {swap: True}\nrecompute_config: {recompute: True}\n"
    swap, recompute = of(read(written(model=model)), "rl-training")
    assert (place(swap), swap.severity) == (("model.yaml", 4, 1, "swap_config"), Severity.WARNING)
    assert (place(recompute), recompute.severity) == (("model.yaml", 5, 1, "recompute_config"), Severity.NOTE)


@pytest.mark.parametrize("model", ["nowhere.yaml", "''", "model.yaml"])
def test_a_model_that_cannot_be_read_is_one_note_and_the_sections_are_checked(written: Written, model: str) -> None:
    text = GRPO.replace("./model.yaml", model, 1).replace("[1, 2]", "[1, 2, 3]")
    study = read(written(text, "a: [\n" if model == "model.yaml" else MODEL))
    actor = [found for found in study.findings if found.origin.path.startswith("actor_config")]
    assert [(found.rule, found.severity) for found in actor] == [
        ("rl-training", Severity.NOTE),
        ("recompute-count", Severity.ERROR),
    ]


def test_the_yaml_of_the_model_is_looked_for_above_the_rl_yaml(written: Written, tmp_path: Path) -> None:
    written()
    folder = tmp_path / "examples" / "grpo"
    folder.mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "m.yaml").write_text(MODEL)
    (folder / "grpo.yaml").write_text(GRPO.replace("./model.yaml", "./configs/m.yaml"))
    study = read(folder / "grpo.yaml")
    assert not study.findings
    assert study.parts["actor_config"].config.model.num_layers == 8


@pytest.mark.parametrize(
    "inline",
    [
        "{type: LlamaConfig, num_layers: 8}",
        "{model_config: {type: LlamaConfig, num_layers: 8}, arch: {type: LlamaForCausalLM}}",
        "{model: {model_config: {type: LlamaConfig, num_layers: 8}}}",
    ],
)
def test_a_model_may_be_written_out(written: Written, inline: str) -> None:
    study = read(written(GRPO.replace("./model.yaml", inline, 1)))
    assert study.parts["actor_config"].config.model.num_layers == 8


def test_the_yaml_of_the_model_may_include_others(written: Written) -> None:
    study = read(written(model="base_config: base.yaml\n", base=MODEL.replace("num_layers: 8", "num_layers: 4")))
    assert study.parts["ref_config"].config.model.num_layers == 4


@pytest.mark.parametrize(
    "text",
    [
        GRPO.replace("actor_config", "critic_config"),
        GRPO.replace("actor_config", "policy_config"),
        "actor_config: {recompute_config: {recompute: [1, 2, 3]}, parallel_config: {pipeline_stage: 2}}\n",
    ],
)
def test_models_of_other_names_are_checked_as_well(written: Written, text: str) -> None:
    study = read(written(text.replace("[1, 2]", "[1, 2, 3]")))
    assert [found.severity for found in of(study, "recompute-count")] == [Severity.ERROR]


def test_models_without_end_are_not_read(written: Written) -> None:
    many = "".join(f"m{index}_config: {{model_config: ./model.yaml, parallel_config: {{}}}}\n" for index in range(20))
    study = read(written(many))
    assert len(study.parts) == 8
    assert len(of(study, "rl-training")) == 12


def test_a_section_below_an_unknown_parent_is_told_of(written: Written) -> None:
    found = only(read(written("trainer:\n  actor:\n    recompute_config: {recompute: [1]}\n")))
    assert (found.rule, found.severity) == ("section-misplaced", Severity.WARNING)
    assert place(found) == ("grpo.yaml", 3, 5, "trainer.actor.recompute_config")


def test_the_other_layout_of_mindspeed_is_none_of_ours(written: Written) -> None:
    assert not read(written("actor_config: {model: qwen25_7b, recompute_granularity: full}\nrl_config: {}\n")).findings


# --- commands -------------------------------------------------------------------------------------------------------


def test_explain_shows_the_models_apart(written: Written) -> None:
    done = invoked("explain", written())
    assert done.exit_code == 0
    actor, reference = done.output.split("ref_config, with the model of", 1)
    assert "actor_config, with the model of" in actor
    assert "0, 4-5" in actor
    assert "not trained" in reference
    assert "Nothing is asked for" in reference
    told = json.loads(invoked("explain", written(), "--format", "json").stdout)
    assert list(told) == ["actor_config", "ref_config"]
    assert {layer["stage"] for layer in told["actor_config"]["layers"]} == {0, 1}


def test_explain_says_where_layers_are_not_known(written: Written) -> None:
    done = invoked("explain", written(GRPO.replace("./model.yaml", "nowhere.yaml", 1)))
    assert "actor_config: its layers are not known" in done.output
    assert invoked("explain", written(), "--layer", "8").exit_code == 2


COMMANDS: Mapping[str, str] = {
    "dryrun": "dryrun {file}",
    "plan": "plan {file} --budget 50GB",
    "whatif": "whatif {folder} --config {file}",
    "verify": "verify {folder} --config {file}",
    "compare": "compare {file} {file2}",
    "migrate": "migrate {file} --to pynative",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_for_one_training_says_which_to_name(written: Written, name: str) -> None:
    file = written(other=GRPO)
    line = COMMANDS[name].format(file=file, file2=file.with_name("other.yaml"), folder=file.parent)
    done = invoked(*line.split())
    assert done.exit_code in (1, 2)
    assert "name the training YAML of one of them, such as ./model.yaml" in done.output.replace("\n", " ")


def test_a_folder_is_searched_for_them_and_overrides_hold(written: Written, tmp_path: Path) -> None:
    written(GRPO.replace("[1, 2]", "[1, 2, 3]"))
    done = invoked("check", "--format", "json", tmp_path)
    assert [Path(found["file"]).name for found in json.loads(done.stdout)] == ["grpo.yaml"]
    change = "actor_config.parallel_config.pipeline_stage=4"
    assert invoked("check", os.path.join(tmp_path, "grpo.yaml"), "--set", change).exit_code == 0
