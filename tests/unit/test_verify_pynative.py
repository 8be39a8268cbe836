"""Logs of PyNative trainings, as mindformers' `apply_ac` and swapconf's seam in it write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.helpers import ROOT, invoke

SECTIONS = """
swap:
  enable: True
  default_prefetch: 1
  layer_swap:
    - layers: ['0-1']
recompute:
  mode: select
  full_recompute_layer: ['1']
  select_module:
    .*linear_fc1: ['2']
    self_attention.core_attention: ['2-3']
"""
PREFIX = "2026-11-20 15:01:24,300 - rank_0[mindformers/pynative/distributed/activation_checkpoint.py:300] - INFO - "
PAIR = ("--mindspore-version", "2.10.0", "--mindformers-version", "2.0.0")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    text = (ROOT / "configs/pynative/qwen3.yaml").read_text(encoding="utf-8")
    file = tmp_path / "train.yaml"
    file.write_text(text.replace("global_batch_size: 1", "global_batch_size: 2") + SECTIONS, encoding="utf-8")
    return file


def lines_of(config: Path) -> list[str]:
    """Those that `explain` says a run logs."""
    result = invoke("explain", config, "--format", "json", *PAIR)
    return [line for layer in json.loads(result.stdout)["log_lines"] for line in layer["lines"]]


def verified(config: Path, lines: list[str], *more: str) -> Result:
    folder = config.parent / "logs"
    folder.mkdir()
    body = "".join(f"{PREFIX}{line}\n" for line in lines)
    (folder / "worker_0.log").write_text(f"start\n{body}step 1\n", encoding="utf-8")
    return invoke("verify", folder, "--config", config, *PAIR, *more)


def test_what_explain_says_agrees(config: Path) -> None:
    lines = lines_of(config)
    assert lines == [
        "Set layer swap at layer 0",
        "Set full recompute at layer 1",
        "Skip layer swap at layer 1: recomputed there: the whole layer [pynative-overlap]",
        "Set select recompute at layer 2: mlp.linear_fc1, self_attention.core_attention",
        "Set select recompute at layer 3: self_attention.core_attention",
    ]
    result = verified(config, lines)
    assert result.exit_code == 0, result.output
    assert "agrees" in result.output


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (0, "layer swap of the whole layer at layer 0 is decided, but not logged"),
        (1, "full recompute of the whole layer at layer 1 is decided, but not logged"),
        (4, "select recompute of self_attention.core_attention at layer 3 is decided, but not logged"),
    ],
)
def test_each_line_that_is_missing_is_told_at_its_entry(config: Path, number: int, told: str) -> None:
    lines = lines_of(config)
    result = verified(config, lines[:number] + lines[number + 1 :])
    assert result.exit_code == 1
    assert told in result.output
    assert "[log-line-missing]" in result.output
    (at,) = {line.partition(":")[2].partition(":")[0] for line in result.output.splitlines() if told in line}
    named = ("layers: ['0-1']", "full_recompute_layer", "self_attention.core_attention")
    assert any(name in config.read_text(encoding="utf-8").splitlines()[int(at) - 1] for name in named)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Set layer swap at layer 3", "layer swap of the whole layer at layer 3 is logged, but not decided"),
        ("Set layer swap at layer 1", "layer swap of the whole layer at layer 1 is logged, but not decided"),
        ("Set select swap at layer 3: mlp", "select swap of mlp at layer 3 is logged, but not decided"),
        ("Set exclude recompute at layer 2: mlp", "exclude recompute of mlp at layer 2 is logged, but not decided"),
    ],
)
def test_what_is_logged_and_not_decided_is_told(config: Path, line: str, told: str) -> None:
    """Of them what mindformers alone sets where recompute and swap overlap."""
    result = verified(config, [*lines_of(config), line])
    assert result.exit_code == 1
    assert told in result.output


def test_a_run_on_one_card_skips_all_that_is_decided(config: Path) -> None:
    skipped = [
        "Skip layer swap at layer 0: mindformers applies it on several cards only [pynative-one-card]",
        "Skip full recompute at layer 1: mindformers applies it on several cards only [pynative-one-card]",
    ]
    result = verified(config, skipped)
    assert result.exit_code == 1
    assert "is decided, but skipped [pynative-one-card]" in result.output


def test_a_model_that_the_catalog_does_not_know_is_not_compared(config: Path) -> None:
    config.write_text(config.read_text(encoding="utf-8").replace("model_type: qwen3", "model_type: other"))
    result = verified(config, ["Set select recompute at layer 2: some.module"])
    assert result.exit_code == 0, result.output
    assert "log-not-compared" in result.output
