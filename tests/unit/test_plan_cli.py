"""``swapconf plan`` from traces that are there: what it prints, writes and refuses."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from swapconf.cli import planning
from swapconf.cli.common import go_on
from swapconf.cli.main import main
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.plan.frontier import Frontier
from swapconf.plan.modes import Plan
from swapconf.plan.runs import without_strategy
from swapconf.report import plan_chart
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions

TRACES = Path(__file__).parents[1] / "traces"
NONE = TRACES / "llama_l2_none"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return Path(shutil.copy(TRACES / "llama.yaml", tmp_path / "train.yaml"))


def plan(config: Path, *more: str) -> Result:
    return CliRunner().invoke(
        main, ["plan", str(config), "--from", str(NONE), "--hardware", "ascend_910b2", "--effort", "0.1", *more]
    )


def record(config: Path, *more: str) -> dict[str, Any]:
    result = plan(config, "--format", "json", *more)
    assert result.exit_code in (0, 3), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_plan_fits_its_budget_and_is_not_slower_than_what_is_simple(config: Path) -> None:
    found = record(config, "--budget", "322MB")
    assert found["verdict"] == "planned"
    assert found["fits"]
    assert found["needed_bytes"] <= 322 << 20
    simple = [item["step_us_slower_link"] for item in found["simple"] if item["fits"]]
    assert simple
    assert found["ranges"] <= found["ranges_of_fastest"]
    assert found["ranges_cost"] <= 0.003
    assert [way["order"] for way in found["order_of_launches"]] == ["run"]
    assert found["order_of_launches"][0]["told"] in found["origin"]
    step = found["step_us"]
    assert step["plan_slower_link"] <= min(simple) * 1.001
    assert 0.5 * step["plan"] < step["plan_low"] < step["plan"] < step["plan_high"] < 2 * step["plan"]


def test_a_plan_tells_how_the_times_of_its_kernels_are_known(config: Path, tmp_path: Path) -> None:
    """As a profile of one product of the trace measured it, and as was estimated before."""
    profile, card = tmp_path / "kernel_details.csv", tmp_path / "mine.json"
    profile.write_text(
        "Name,Type,Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data Types\n"
        'x,MatMulV3,900,"""4096,512;128,512""",DT_BF16;DT_BF16,"""4096,128""",DT_BF16\n'
    )
    assert (
        CliRunner().invoke(main, ["calibrate", str(profile), "--hardware", "ascend_910b2", "-o", str(card)]).exit_code
        == 0
    )
    shares = record(config, "--budget", "322MB", "--hardware", str(card))["share"]
    assert set(shares) == {"measured", "estimated"}
    assert 0.02 < shares["measured"] < 0.98
    result = plan(config, "--budget", "322MB", "--hardware", str(card))
    assert f"times of kernels: measured {shares['measured']:.0%}, estimated {shares['estimated']:.0%}" in result.stdout


def test_a_plan_is_written_into_the_yaml_and_all_else_stays(config: Path) -> None:
    before = config.read_text()
    assert plan(config, "--budget", "322MB", "--write").exit_code == 0
    after = config.read_text()
    assert after != before
    assert after.count("# planned by swapconf for 322MB a card") == 1
    asked, written = yaml.safe_load(before), yaml.safe_load(after)
    for name in asked:
        if name not in ("swap_config", "recompute_config"):
            assert written[name] == asked[name]
    # planned again from what was written, it is the same, and there still is one comment
    assert plan(config, "--budget", "322MB", "--write").exit_code == 0
    assert config.read_text() == after


def test_what_was_set_beside_the_yaml_is_told_where_the_plan_is_written(config: Path) -> None:
    """It is no part of the plan, which does not hold without; what the plan decides by itself, and what the file says
    already, is not told."""
    epochs, strategy = "runner_config.epochs=3", "swap_config.default_prefetch=7"
    result = plan(config, "--budget", "322MB", "--write", "--set", epochs, "--set", strategy)
    assert result.exit_code == 0
    assert f"which {config} does not say; write that into it, too: {epochs}\n" in result.stderr
    told = plan(config, "--budget", "322MB", "--write", "--set", "use_parallel=True", "--set", strategy).stderr
    assert "does not say" not in told


def test_the_difference_does_not_command_the_terminal(config: Path) -> None:
    config.write_text(
        config.read_text().replace("recompute_config:", "recompute_config:  # \u202eabc"), encoding="utf-8"
    )
    shown = plan(config, "--budget", "322MB", "--diff").output
    assert "recompute_config:" in shown
    assert "\u202e" not in shown


def test_the_same_input_gives_the_same_bytes(config: Path) -> None:
    assert plan(config, "--budget", "322MB").output == plan(config, "--budget", "322MB").output


def test_where_nothing_is_needed_it_says_so(config: Path) -> None:
    result = plan(config, "--budget", "10GB")
    assert result.exit_code == 0
    assert "nothing is needed" in result.output


def test_where_nothing_fits_it_tells_the_lowest_and_what_holds_it(config: Path) -> None:
    result = plan(config, "--budget", "100MB")
    assert result.exit_code == 3
    assert "no plan that was tried fits in 100.0M; the lowest needs" in result.output
    assert "rank 0: " in result.output
    lowest = record(config, "--budget", "100MB")["needed_bytes"]
    assert record(config, "--budget", f"{lowest}B")["fits"]


def test_what_is_beside_the_pool_counts_in_the_budget(config: Path) -> None:
    assert "nothing is needed" in plan(config, "--budget", "360MB").output
    assert "nothing is needed" not in plan(config, "--budget", "360MB", "--beside", "50MB").output


def test_pinned_host_memory_has_a_budget_of_its_own(config: Path) -> None:
    found = record(config, "--budget", "322MB", "--host-budget", "0")
    assert all(rank["host_peak_bytes"] == 0 for rank in found["ranks"])


def test_a_trace_of_another_model_is_refused(config: Path) -> None:
    result = plan(config, "--budget", "322MB", "--set", "model.model_config.hidden_size=1024")
    assert result.exit_code == 2
    assert "Error" in result.output


def test_a_budget_that_is_no_size_is_refused(config: Path) -> None:
    result = plan(config, "--budget", "much")
    assert result.exit_code == 2
    assert "'much' is not a size" in result.output


def test_the_difference_alone_can_be_applied(config: Path) -> None:
    lines = plan(config, "--budget", "322MB", "--diff").stdout.splitlines()
    assert lines[0].startswith("--- a/")
    assert any(line.startswith("+# planned by swapconf") for line in lines)


@pytest.mark.parametrize(
    ("sections", "is_on"),
    [
        ("", False),
        ("swap_config: {swap: True, layer_swap: [{layers: True, backward_prefetch: 2}]}\n", False),
        ("recompute_config: {recompute: [1], select_recompute: True}\n", False),
    ],
)
def test_the_baseline_is_the_same_yaml_with_nothing_switched_on(tmp_path: Path, sections: str, is_on: bool) -> None:
    text = "model: {model_config: {type: LlamaConfig, num_layers: 2}, arch: {type: LlamaForCausalLM}}\n" + sections
    (tmp_path / "train.yaml").write_text(text)
    config, _ = from_document(without_strategy(str(tmp_path / "train.yaml"), ()))
    assert config.swap_on is is_on
    assert config.recompute.full is None
    assert config.recompute.select == ()


def test_keys_of_mcore_models_are_switched_off_too(tmp_path: Path) -> None:
    model = "{swap: True, layer_swap: [{layers: True, backward_prefetch: 2}], num_layers: 2}"
    (tmp_path / "train.yaml").write_text(f"use_legacy: False\nmodel: {{model_config: {model}}}\n")
    config, _ = from_document(without_strategy(str(tmp_path / "train.yaml"), ()))
    assert not config.swap_on


def test_no_plan_of_the_frontier_that_fits_is_faster_than_the_plan(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Frontier[Plan]] = []

    def chart(found: Frontier[Plan]) -> list[str]:
        shown.append(found)
        return []

    monkeypatch.setattr(plan_chart, "chart", chart)
    assert plan(config, "--budget", "340MB", "--frontier").exit_code == 0
    [found] = shown
    fitting = [point.step_us for point in found.points if point.needed_bytes <= 340 << 20]
    assert fitting
    assert found.chosen.step_us <= min(fitting) * 1.001


def test_what_no_dry_run_would_come_through_is_not_started_and_told_once(config: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["plan", str(config), "--budget", "322MB", "--keep", str(tmp_path / "kept"), "--set", "run_mode=predict"]
    )
    assert result.exit_code == 1
    assert result.stderr.count("no-training]") == 1
    assert "rank" not in result.stderr
    assert not (tmp_path / "kept").exists()


def without_runs(config: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Result:
    """Where a baseline would have to be run first, which ends here."""

    def made(*_: object) -> None:
        raise ValueError("a run is started")

    monkeypatch.setattr(planning, "baselines", made)
    monkeypatch.delenv("REGISTER_PATH", raising=False)
    return CliRunner().invoke(main, ["plan", str(config), "--hardware", "ascend_910b2", *more])


def test_a_budget_that_is_none_is_told_before_anything_is_run(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a run is started" in without_runs(config, monkeypatch, "--budget", "54GB").stderr
    found = without_runs(config, monkeypatch, "--budget", "much")
    assert found.exit_code == 2
    assert "a run is started" not in found.stderr


def test_code_of_a_model_is_found_in_the_folder_that_is_told(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text("")
    own = ("--budget", "54GB", "--set", "model.arch.auto_register=own.Model", "--set", "model.arch.type=Model")
    assert "[no-model-code]" in without_runs(config, monkeypatch, *own).stderr
    found = without_runs(config, monkeypatch, *own, "--register-path", str(tmp_path))
    assert "[no-model-code]" not in found.stderr
    assert "a run is started" in found.stderr


def test_a_yaml_that_trains_nothing_is_not_sent_to_another_memory_level_first(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of GLM-4 for prediction, as it is published, `plan` asked for O0, and then said that nothing can be trained."""
    level = ("--budget", "54GB", "--set", "context.memory_optimize_level=O1", "--set", "swap_config.swap=False")
    assert "memory_optimize_level=O0" in without_runs(config, monkeypatch, *level).stderr
    found = without_runs(config, monkeypatch, *level, "--set", "run_mode=predict")
    assert found.exit_code == 1
    assert "[no-training]" in found.stderr
    assert "memory_optimize_level=O0" not in found.stderr


def test_what_was_said_of_a_yaml_is_not_said_again_of_another_form_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = (TRACES / "llama.yaml").read_text(encoding="utf-8")
    warned = re.sub(r"(?m)^(optimizer:\n(?:  .*\n)*?  type:) .*", r"\1 FusedAdamWeightDecay", text)
    one, other = (study_document(parse(each, "a.yaml"), Versions(), {}) for each in (warned, f"# shifted\n{warned}"))
    go_on(one)
    assert "optimizer-gone" in capsys.readouterr().err
    go_on(other, one.findings)
    assert not capsys.readouterr().err
    go_on(other, ())
    assert "optimizer-gone" in capsys.readouterr().err
