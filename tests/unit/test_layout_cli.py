"""``swapconf layout`` on recorded traces: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from swapconf.cli import laying_out
from swapconf.cli import layout as layout_cli
from swapconf.cli.laying_out import LayoutOptions
from swapconf.cli.main import main
from swapconf.config import base_config
from swapconf.files.schemas import validator
from swapconf.layout.layout import layout_of
from swapconf.plan.runs import StageRun
from swapconf.study.study import Study, study_for_check
from tests.helpers import TRACES
from tests.unit.layouts import FIXED, Recorded

ROOMY, TIGHT = "64GB", "335MB"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(laying_out, "reports", Recorded())
    return Path(shutil.copy(TRACES / "llama.yaml", tmp_path / "train.yaml"))


def layout(config: Path, *more: str, budget: str = ROOMY, cards: int = 8) -> Result:
    words = ["layout", str(config), "--cards", str(cards), "--budget", budget, "--hardware", "ascend_910b2"]
    keep = ["--keep", str(config.parent / "kept")]
    return CliRunner().invoke(main, [*words, *keep, "--effort", "0.05", *FIXED, *more])


def record(config: Path, *more: str, budget: str = ROOMY) -> dict[str, Any]:
    result = layout(config, "--format", "json", *more, budget=budget)
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    validator("layout").validate(found)
    return found


def test_the_layouts_stand_side_by_side_with_the_yaml_as_it_is(config: Path) -> None:
    found = record(config)
    names = [row["layout"] for row in found["layouts"]]
    assert "dp2 tp4 mb1x2" in names
    assert found["as_it_is"]["layout"] == "dp2 tp4 mb1x2"
    assert found["as_it_is"]["strategy"] == "as the YAML says"
    assert found["as_it_is"]["step_us"] > found["layouts"][0]["step_us"]
    best = found["layouts"][0]
    assert best["strategy"] == "no swap, no recompute"
    assert best["step_low_us"] < best["step_us"] < best["step_high_us"]
    assert best["keys"]["model_parallel"] == 4
    # 2 sequences a card of data parallelism, 4 in a step, of 4096 tokens each
    assert best["tokens_per_second"] == pytest.approx(4 * 4096 / 8 / best["step_us"] * 1e6)


def test_layouts_with_one_trace_are_called_equal_and_what_would_decide_is_told(config: Path) -> None:
    found = record(config)
    assert len(found["layouts"]) > 1
    assert [row["is_equal"] for row in found["layouts"]] == [False, True]  # the best is not held against itself
    assert all(row["more_us"] == 0 for row in found["layouts"])
    told = layout(config).output
    assert "+0.0% =" in told
    assert "as fast as far as can be told: " in told
    assert "what would decide: " in told


def test_where_nothing_fits_without_a_strategy_each_layout_has_its_own(config: Path) -> None:
    found = record(config, budget=TIGHT)
    best = found["layouts"][0]
    assert best["fits"]
    assert best["strategy"] != "no swap, no recompute"
    assert best["needed_bytes"] <= 335 << 20
    assert record(config, budget=TIGHT) == found  # the same input, the same bytes


def test_what_fits_nowhere_is_told_with_the_lowest_and_is_exit_code_3(config: Path) -> None:
    result = layout(config, budget="200MB")
    assert result.exit_code == 3
    assert "no layout that was tried fits in 200.0M; the lowest needs " in result.output
    assert record(config, budget="200MB")["yaml"] == ""


def test_where_nothing_fits_the_page_asks_for_a_dry_run_of_the_same_yaml(config: Path) -> None:
    file = config.parent / "layout.html"
    layout(config, "--html", str(file), "--set", "runner_config.epochs=1", budget="200MB")
    asked = re.search(r"swapconf dryrun .*--ranks stages", unescape(file.read_text()))
    assert asked is not None
    assert shlex.split(asked[0]) == [
        *("swapconf", "dryrun", str(config), "--set", "runner_config.epochs=1"),
        *("--ranks", "stages"),
    ]


def test_what_is_known_of_all_traces_is_told_once(config: Path) -> None:
    output = layout(config, "--vary", "enable_parallel_optimizer=True,False").output
    told = [line for line in output.splitlines() if line.endswith("]")]
    assert len(told) == len({line.partition(":0:0")[2] for line in told}) > 0


def test_what_mindspore_refuses_is_told_and_the_others_go_on(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laying_out, "reports", Recorded(broken=[4]))
    words = ["layout", str(config), "--cards", "8", "--budget", ROOMY, "--keep", str(config.parent / "kept")]
    fixed = ["--fix", "use_seq_parallel", "--fix", "pipeline_stage", "--fix", "enable_parallel_optimizer"]
    vary = ["--vary", "model_parallel=2,4", "--vary", "batch_size=1"]
    result = CliRunner().invoke(main, [*words, *fixed, *vary, "--format", "json"])
    assert "1 layout was run, 1 planned, 1 refused by MindSpore or mindformers; best so far" in result.stderr
    found = json.loads(result.stdout)
    assert [row["layout"] for row in found["layouts"]] == ["dp2 tp4 mb1x2"]
    (group,) = [item for item in found["left_out"] if item["reason"] == "refused"]
    assert group["layouts"] == ["dp4 tp2 mb1x1"]
    assert group["told"] == ["rank 0 stopped with an error: not this one"]


def test_the_best_is_written_with_its_strategy_and_check_finds_no_error_in_it(config: Path) -> None:
    before = config.read_text()
    result = layout(config, "--write", "--vary", "enable_parallel_optimizer=True", budget=TIGHT, cards=16)
    assert result.exit_code == 0, result.output
    after = config.read_text()
    assert yaml.safe_load(after)["parallel"]["enable_parallel_optimizer"] is True
    assert yaml.safe_load(after)["parallel_config"]["data_parallel"] == 4
    assert "# planned by swapconf for 335MB a card" in after
    study = study_for_check(base_config.of_text(after, str(config)), os.environ)
    assert not study.is_refused
    assert layout_of(study).shards_optimizer
    assert "# The model of the traces" in after
    assert after != before


def test_what_was_set_and_is_not_in_the_yaml_is_told_when_it_is_written(config: Path) -> None:
    """Not what the layout decides: the layout that was found is in the YAML, whatever was set."""
    told = layout(config, "--write", "--set", "seed=7", "--set", "parallel_config.data_parallel=2", cards=16).stderr
    (line,) = [line for line in told.splitlines() if "the plan holds with what --set" in line]
    assert line.endswith("write that into it, too: seed=7")


def test_the_difference_alone_is_printed_when_asked_for(config: Path) -> None:
    result = layout(config, "--diff", "--vary", "enable_parallel_optimizer=True", cards=16)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("+", "-"))]
    assert "+  enable_parallel_optimizer: True" in lines
    assert not any("tokens" in line for line in result.stdout.splitlines())


def test_before_the_first_run_it_says_how_many_and_then_how_long(config: Path) -> None:
    told = layout(config, "--vary", "batch_size=1,2").stderr
    assert "layouts can be trained on these cards; at most " in told
    assert "Ctrl-C ends it with the best so far" in told
    assert " more, about " in told


def test_another_number_of_cards_has_no_row_for_the_yaml_as_it_is(config: Path) -> None:
    words = ["layout", str(config), "--cards", "4", "--budget", ROOMY, "--keep", str(config.parent / "kept"), *FIXED]
    found = json.loads(CliRunner().invoke(main, [*words, "--format", "json"]).stdout)
    assert found["as_it_is"] is None
    assert found["cards"] == 4
    assert {row["layout"] for row in found["layouts"]} <= {"tp4 mb1x4", "tp4 mb2x2", "tp4 mb4x1"}
    assert found["layouts"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fix", "hidden_size"), "is no key of a layout"),
        (("--vary", "batch_size"), "gives no values"),
        (("--vary", "batch_size=3"), "no layout of 8 cards trains the same 4 sequences a step"),
        (("--vary", "model_parallel=8"), "is given twice"),
        (("--set", "use_parallel=False"), "to compare layouts of several, give"),
        (("--set", "use_parallel=False", "--set", "run_mode=predict"), "fills in nothing that a training needs"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_a_run(
    config: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    runs = Recorded()
    monkeypatch.setattr(laying_out, "reports", runs)
    result = layout(config, *words)
    assert result.exit_code in (1, 2)
    assert told in result.output
    assert not runs.asked


def test_a_plan_that_needs_more_in_a_true_run_is_planned_again(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needed = iter([230 << 20, 1 << 20])

    def run_plan(*_: object) -> list[StageRun]:
        size = next(needed)
        return [
            StageRun(
                rank=0, stage=0, folder=tmp_path, used_peak_bytes=size, with_fragments_peak_bytes=size, host_bytes=0
            )
        ]

    monkeypatch.setattr(laying_out, "run_plan", run_plan)
    fix = ("--fix", "batch_size", "--fix", "enable_parallel_optimizer")
    result = layout(config, "--confirm", *fix, budget="380MB")
    assert "planning again with that in mind" in result.output
    assert next(needed, None) is None


def test_the_page_draws_a_point_a_layout_and_tells_what_its_yaml_says(config: Path) -> None:
    file = config.parent / "layout.html"
    result = layout(config, "--html", str(file), "--vary", "enable_parallel_optimizer=True,False")
    assert result.exit_code == 0, result.output
    text = file.read_text()
    figures = json.loads(text.partition('id="figures">')[2].partition("</script>")[0])
    (figure,) = figures
    assert sorted(number for trace in figure["data"] for number in trace["customdata"]) == [0, 1, 2]
    sections = json.loads(text.partition('id="sections">')[2].partition("</script>")[0])
    assert any("enable_parallel_optimizer: True" in item["text"] for item in sections)
    assert sections[-1]["text"].startswith("# as the file says")
    asked = re.search(r"swapconf layout .*--confirm --write", unescape(text))
    assert asked is not None
    again = shlex.split(asked[0])
    assert again[2] == str(config)
    assert again[again.index("--hardware") + 1] == "ascend_910b2"
    assert "enable_parallel_optimizer=True,False" in again
    assert "--html" not in again


def test_the_same_input_gives_the_same_bytes(config: Path) -> None:
    assert layout(config, "--format", "json").stdout == layout(config, "--format", "json").stdout


def test_figures_say_where_they_are_from(config: Path) -> None:
    assert all(row["composed"] == [] for row in record(config)["layouts"])
    told = layout(config).output
    assert "traces" in told
    assert " run " in told


def test_layers_of_one_stage_are_not_shifted(config: Path) -> None:
    result = layout(config, "--stages")
    assert result.exit_code == 2
    assert "--stages shifts layers between the stages of a pipeline without interleave" in result.output


PIPELINED = (
    *("--set", "parallel_config.pipeline_stage=2", "--set", "parallel_config.data_parallel=1"),
    *("--set", "parallel_config.micro_batch_num=4", "--set", "parallel.dataset_strategy=[[1,1],[1,1]]"),
)


def test_a_plan_asks_for_the_stages_of_its_own_layout(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `layout --stages` does, told how many cards there are."""
    seen: list[tuple[LayoutOptions, Study]] = []

    def laid_out(study: Study, _: object, __: object, wanted: LayoutOptions, *___: object) -> None:
        seen.append((wanted, study))
        raise ValueError("enough")

    monkeypatch.setattr(layout_cli, "laid_out", laid_out)
    words = ["plan", str(config), "--budget", ROOMY, "--stages", *PIPELINED]
    assert "enough" in CliRunner().invoke(main, words).output
    assert "enough" in layout(config, "--stages", *PIPELINED).output
    (by_plan, study), (by_layout, _) = seen
    assert by_plan.stages
    assert by_plan.cards == layout_of(study).cards == by_layout.cards == 8
    assert by_plan.top == by_layout.top


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "--stages shifts layers between the stages of a pipeline without interleave"),
        (("--frontier",), "leave --frontier out"),
        (("--from", str(TRACES / "llama_l2_none")), "leave --from out"),
    ],
)
def test_a_plan_says_why_it_cannot_decide_stages(config: Path, more: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(main, ["plan", str(config), "--budget", ROOMY, "--stages", *more])
    assert result.exit_code == 2
    assert told in result.output


def test_a_yaml_for_which_nothing_is_predicted_is_refused_before_dry_runs(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `plan` does."""
    runs = Recorded()
    monkeypatch.setattr(laying_out, "reports", runs)
    result = layout(config, "--set", "context.memory_optimize_level=O1", "--set", "swap_config.swap=False")
    assert result.exit_code == 2
    assert "with memory_optimize_level O1 MindSpore plans the memory ahead" in result.output
    assert runs.asked == []


def test_where_cards_are_too_many_for_the_batch_it_says_with_how_many_sequences_they_are_not(config: Path) -> None:
    result = layout(config, cards=64)
    assert result.exit_code == 2
    assert "no layout of 64 cards trains the same 4 sequences a step" in result.output
    asked = re.search(r"with (\d+) sequences a step there are some.*--set (\S+)=(\d+)", result.output)
    assert asked is not None
    again = layout(config, "--set", f"{asked[2]}={asked[3]}", cards=64)
    assert "can be trained on these cards" in again.output


def test_where_check_refuses_all_layouts_it_says_why_once_and_of_how_many(config: Path) -> None:
    words = ["layout", str(config), "--cards", "6", "--budget", ROOMY, "--vary", "model_parallel=3"]
    result = CliRunner().invoke(main, [*words, "--vary", "pipeline_stage=1"])
    assert result.exit_code == 2
    assert "none of the layouts of 6 cards for the same 4 sequences a step can be trained" in result.output
    assert re.search(r"no multiple of `model_parallel: 3`.*\([2-9] layouts\)", result.output)
    assert result.output.count("model_parallel: 3") == 1
