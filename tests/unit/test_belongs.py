"""A trace of another model, shape or layout is no baseline for a YAML."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from swapconf.cli.main import main
from swapconf.config import overrides
from tests.helpers import ROOT

TRACE = ROOT / "tests" / "traces" / "llama_l2_none"
CONFIG = ROOT / "tests" / "traces" / "llama.yaml"
RING = ["parallel_config.context_parallel=2", "model.model_config.use_ring_attention=True"]
SETTINGS: Any = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))


def ask(trace: Path, *changes: str, config: Path = CONFIG) -> Result:
    words = [word for change in changes for word in ("--set", change)]
    return CliRunner().invoke(main, ["whatif", str(trace), "--config", str(config), *words])


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The same trace with the record of `swapconf dryrun --keep`."""
    folder = tmp_path / "rank_0"
    shutil.copytree(TRACE, folder)
    ran = {**SETTINGS, "swap_config": {"swap": False}}
    (folder / "run.json").write_text(json.dumps({"settings": ran}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.model_config.seq_length=8192", "attention has 524288 elements, and with"),
        ("model.model_config.hidden_size=8192", "has hidden_size 8192"),
        ("parallel_config.model_parallel=2", "(batch_size, seq_length, heads, model_parallel)"),
        ("runner_config.batch_size=2", "attention has 524288 elements, and with"),
    ],
)
def test_a_trace_without_a_record_shows_its_shape(change: str, words: str) -> None:
    done = ask(TRACE, change)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "swapconf dryrun" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("lacking", [["swap_config"], ["swap_config", "recompute_config"], []])
def test_the_command_for_a_right_trace_switches_off_what_the_config_has(tmp_path: Path, lacking: list[str]) -> None:
    config = tmp_path / "train.yaml"
    config.write_text(yaml.safe_dump({key: value for key, value in SETTINGS.items() if key not in lacking}))
    done = ask(TRACE, "runner_config.batch_size=2", config=config)
    assert done.exit_code == 2
    for section in ("swap_config", "recompute_config"):
        assert (f"--set {section}." in done.stderr) == (section not in lacking)
    (told,) = [line for line in done.stderr.splitlines() if "swapconf dryrun" in line]
    words = told.partition("swapconf dryrun ")[2].split()
    assert not overrides.of_file(str(config), [word for word in words if "=" in word]).findings


@pytest.mark.parametrize(
    ("command", "changes", "words"),
    [
        ("whatif", ["context.memory_optimize_level=O1"], "--set context.memory_optimize_level=O0"),
        ("plan", ["context.memory_optimize_level=O1"], "--set context.memory_optimize_level=O0"),
        ("whatif", RING, "to other ranks"),
        ("plan", RING, "to other ranks"),
        (
            "plan",
            ["model.model_config.type=MineConfig", "context.memory_optimize_level=O1"],
            "memory_optimize_level=O0",
        ),
    ],
)
def test_what_is_never_predicted_is_refused_before_a_trace_is_made_or_read(
    command: str, changes: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swapconf.cli.planning.baselines", lambda *asked: pytest.fail("a dry run is started"))
    wanted = [str(tmp_path), "--config", str(CONFIG)] if command == "whatif" else [str(CONFIG), "--budget", "1GB"]
    off = "swap_config.swap=False"  # swap is refused with O1 by itself
    done = CliRunner().invoke(main, [command, *wanted, *(word for one in (off, *changes) for word in ("--set", one))])
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_trace_of_another_family_is_refused() -> None:
    done = ask(
        TRACE, "model.model_config.num_hidden_layers=2", config=ROOT / "configs" / "small" / "qwen3_default_swap.yaml"
    )
    assert done.exit_code == 2
    assert "are not those of a qwen3 model: it has attention" in done.stderr


@pytest.mark.parametrize("key", ["select_recompute", "select_comm_recompute"])
@pytest.mark.parametrize("layers", [True, False])
def test_a_run_that_recomputed_single_operators_is_no_baseline(recorded: Path, key: str, layers: bool) -> None:
    """Its kernels have the names of those of another run."""
    asked = {"swap_config": {"swap": False}, "recompute_config": {key: {r"feed_forward\.w2\.reshape": layers}}}
    (recorded / "run.json").write_text(json.dumps({"settings": {**SETTINGS, **asked}}), encoding="utf-8")
    done = ask(recorded)
    assert (done.exit_code == 2) == layers
    assert ("the trace recomputes already" in done.stderr) == layers


def test_the_command_for_a_right_trace_recomputes_no_communication(recorded: Path) -> None:
    changes = ("recompute_config.select_comm_recompute=True", "model.model_config.vocab_size=2048")
    assert "--set recompute_config.select_comm_recompute=False" in ask(recorded, *changes).stderr
    assert "select_comm_recompute" not in ask(recorded, changes[1]).stderr


def test_without_a_record_it_is_said_how_little_was_compared() -> None:
    told = ask(TRACE).stderr
    assert "[trace-unrecorded]" in told
    assert "[pool-unexplained]" not in told


@pytest.mark.parametrize(
    "change",
    [
        "model.model_config.vocab_size=2048",
        "optimizer.type=Adam",
        "parallel_config.data_parallel=4",
        "runner_config.gradient_accumulation_steps=4",
        "context.jit_config={jit_level: 'O1'}",
        "use_legacy=False",
    ],
)
def test_a_record_is_compared_key_by_key(recorded: Path, change: str) -> None:
    done = ask(recorded, change)
    assert done.exit_code == 2
    assert f"another run than {CONFIG}: {change.partition('=')[0]}" in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        "swap_config.swap=False",
        "recompute_config.recompute=True",
        "runner_config.epochs=3",
        "context.max_device_memory=50GB",
        "model.model_config.offset=0",
        "output_dir=elsewhere",
    ],
)
def test_what_a_question_may_change(recorded: Path, change: str) -> None:
    done = ask(recorded, change)
    assert done.exit_code == 0, done.output
    assert "[trace-unrecorded]" not in done.stderr


def test_compare_refuses_it_too(recorded: Path) -> None:
    done = CliRunner().invoke(
        main, ["compare", str(CONFIG), "--from", str(recorded), "--set", "model.model_config.vocab_size=2048"]
    )
    assert done.exit_code == 1
    assert "another run" in done.output
