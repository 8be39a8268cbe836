"""Configs of which there is no dry run without CANN are refused at their line, before anything is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapconf.config.yaml_document import parse
from swapconf.dryrun.cann import LIBRARY
from swapconf.dryrun.no_dry_run import NO_CODE, NO_MODEL, NO_OPTIMIZER, NO_TRAINING, RULE, no_dry_run
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Severity
from tests.helpers import ROOT

SMALL = (ROOT / "configs/small/qwen3_default_swap.yaml").read_text(encoding="utf-8")


def studied(level: str) -> Study:
    values = "\n".join(line for line in SMALL.splitlines() if "jit_level" not in line and "jit_config" not in line)
    text = values.replace("context:\n", f"context:\n  jit_config: {{jit_level: {level}}}\n")
    assert f"jit_level: {level}" in text
    return study_document(parse(text, "train.yaml"), Versions(), {})


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_what_mindspore_runs_by_itself_has_a_dry_run(level: str) -> None:
    assert not list(no_dry_run(studied(level), 1, {}))


def test_the_graph_engine_is_not_here() -> None:
    (finding,) = no_dry_run(studied("O2"), 1, {})
    assert finding.rule == RULE
    assert finding.origin.path == "context.jit_config.jit_level"
    assert (
        finding.origin.line
        == studied("O2").document.text[: studied("O2").document.text.index("jit_level")].count("\n") + 1
    )


def test_with_a_cann_it_is_left_to_mindspore(tmp_path: Path) -> None:
    (tmp_path / LIBRARY).write_bytes(b"")
    assert not list(no_dry_run(studied("O2"), 1, {"LD_LIBRARY_PATH": str(tmp_path)}))


def test_a_yaml_for_prediction_cannot_be_trained() -> None:
    kept, skipping = [], False
    for line in SMALL.splitlines(keepends=True):
        skipping = line.startswith("optimizer:") or (skipping and line[0] in " #\n")
        kept += [] if skipping else [line]
    (finding,) = no_dry_run(study_document(parse("".join(kept), "predict.yaml"), Versions(), {}), 1, {})
    assert finding.rule == NO_TRAINING
    assert finding.origin.path == "run_mode"


@pytest.mark.parametrize(("mode", "is_refused"), [("predict", True), ("eval", True), ("finetune", False)])
def test_a_yaml_whose_mode_is_not_training_is_not_trained_although_it_has_an_optimizer(
    mode: str, is_refused: bool
) -> None:
    text = re.sub(r"(?m)^run_mode:.*", f"run_mode: '{mode}'", SMALL)
    found = list(no_dry_run(study_document(parse(text, "train.yaml"), Versions(), {}), 1, {}))
    assert [(finding.rule, finding.origin.path) for finding in found] == [(NO_TRAINING, "run_mode")] * is_refused
    assert all("--set run_mode=train" in finding.hint for finding in found)


def test_an_optimizer_that_mindformers_no_longer_has_is_refused_unless_code_may_bring_it() -> None:
    text = re.sub(r"(?m)^(optimizer:\n(?:  .*\n)*?  type:) .*", r"\1 FusedAdamWeightDecay", SMALL)
    assert text != SMALL
    study = study_document(parse(text, "train.yaml"), Versions(), {})
    (finding,) = no_dry_run(study, 1, {})
    assert (finding.rule, finding.origin.path, finding.severity) == (NO_OPTIMIZER, "optimizer.type", Severity.ERROR)
    assert not study.is_refused
    assert not list(no_dry_run(study, 1, {}, "code/of/ones/own"))


@pytest.mark.parametrize(
    ("change", "rule", "path"),
    [
        ((r"\A", "pretrained_model_dir: not/here\n"), "pretrained-config", "pretrained_model_dir"),
        ((r"(?m)^    (model_type|architectures):.*\n", ""), "model-not-named", "model.model_config"),
        ((r"(?m)^    architectures:.*\n", ""), "model-not-named", "model.model_config"),
        ((r"(?m)^    (architectures:).*", r"    \1 []"), "model-not-named", "model.model_config.architectures"),
    ],
)
def test_an_mcore_model_that_nothing_gives_is_not_started(change: tuple[str, str], rule: str, path: str) -> None:
    """mindformers 1.9.0 opens the config.json even where the YAML says everything itself. `check` says the same with
    less weight, as a script may build the model, and a rule of the dry run says that here none does."""
    assert not list(no_dry_run(study_document(parse(SMALL, "train.yaml"), Versions(), {}), 1, {}))
    text = re.sub(*change, SMALL)
    study = study_document(parse(text, "train.yaml"), Versions(), {})
    (finding,) = no_dry_run(study, 1, {})
    assert (finding.rule, finding.origin.path, finding.severity) == (NO_MODEL, path, Severity.ERROR)
    assert f"`{rule}`" in finding.message
    assert not study.is_refused
    (told,) = (known for known in study.findings if known.rule == rule)
    assert (told.origin, told.hint) == (finding.origin, finding.hint)
    assert told.severity < Severity.ERROR


def test_a_legacy_model_needs_no_folder() -> None:
    text = "pretrained_model_dir: not/here\n" + (ROOT / "configs/small/example1_default_swap.yaml").read_text("utf-8")
    assert not list(no_dry_run(study_document(parse(text, "train.yaml"), Versions(), {}), 1, {}))


def test_a_legacy_model_that_nothing_names_is_not_started() -> None:
    text = (ROOT / "configs/small/example1_default_swap.yaml").read_text("utf-8")
    text = text.replace("  arch:\n    type: LlamaForCausalLM\n", "  arch:\n")
    (finding,) = no_dry_run(study_document(parse(text, "train.yaml"), Versions(), {}), 1, {})
    assert (finding.rule, finding.origin.path, finding.severity) == (NO_MODEL, "model.arch", Severity.ERROR)
    assert "arch" in text.splitlines()[finding.origin.line - 1]


@pytest.mark.parametrize("part", ["arch", "model_config"])
def test_the_code_of_a_model_of_ones_own_lies_in_a_folder_that_is_named(tmp_path: Path, part: str) -> None:
    text = (ROOT / "configs/small/example1_default_swap.yaml").read_text("utf-8")
    text = text.replace(f"  {part}:\n", f"  {part}:\n    auto_register: mine.Mine\n")
    study = study_document(parse(text, "train.yaml"), Versions(), {})
    (finding,) = no_dry_run(study, 1, {})
    assert (finding.rule, finding.origin.path) == (NO_CODE, f"model.{part}.auto_register")
    assert "auto_register" in text.splitlines()[finding.origin.line - 1]
    (missing,) = no_dry_run(study, 1, {}, str(tmp_path))
    assert (missing.rule, missing.origin) == (NO_CODE, finding.origin)
    assert f"no file {tmp_path / 'mine.py'}" in missing.message
    (tmp_path / "mine.py").touch()
    assert not list(no_dry_run(study, 1, {}, str(tmp_path)))


def test_without_a_mode_what_mindformers_would_fill_in_has_to_be_there() -> None:
    text = re.sub(r"(?m)^run_mode:.*\n", "", SMALL)

    def found(text: str, mindformers: str = "1.9.0") -> list[str]:
        study = study_document(parse(text, "train.yaml"), Versions(mindformers=mindformers), {})
        return [finding.message for finding in no_dry_run(study, 1, {}) if finding.rule == NO_TRAINING]

    assert found(text) == [
        "without `run_mode` mindformers fills in nothing that a training needs, and stops where there is no "
        "`monitor_config`"
    ]
    assert not found(text, "1.7.0")
    whole = text + "monitor_config: {monitor_on: False}\n"
    assert not found(whole)
    (message,) = found(re.sub(r"(?m)^(runner_wrapper|lr_schedule):", r"my_\1:", whole))
    assert message.endswith("`runner_wrapper`, `lr_schedule`")
    assert not found("run_mode: train\n" + re.sub(r"(?m)^(runner_wrapper|lr_schedule):", r"my_\1:", text))
