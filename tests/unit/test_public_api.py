"""What people may use from Python: the functions of `swapconf` itself, each as the command of that name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import swapconf
from swapconf.cli.main import main
from swapconf.words.findings import SwapconfError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "configs/llama2_7b/example4_swap_with_recompute.yaml"
MISTAKE = ROOT / "tests/examples/many_at_once.yaml"
TRACE, CONFIG = ROOT / "tests/traces/llama_l2_none", ROOT / "tests/traces/llama.yaml"


def printed(*words: object) -> object:
    return json.loads(CliRunner().invoke(main, [str(word) for word in words]).stdout)


def test_check_finds_what_the_command_finds() -> None:
    command = CliRunner().invoke(main, ["check", str(MISTAKE)]).stdout
    findings = swapconf.check(MISTAKE).findings
    assert len(findings) > 3
    assert all(finding.message in command for finding in findings)


def test_explain_has_the_rows_of_the_command() -> None:
    assert {row.operator for row in swapconf.explain(EXAMPLE, layer=0)} >= {"attention"}
    assert len(swapconf.explain(EXAMPLE)) > len(swapconf.explain(EXAMPLE, layer=0))


def test_what_if_predicts_what_the_command_predicts() -> None:
    answer = swapconf.what_if(TRACE, CONFIG)
    told = printed("whatif", TRACE, "--config", CONFIG, "--format", "json")
    assert isinstance(told, dict)
    assert answer.prediction.used_peak_bytes == told["used_peak_bytes"]
    assert answer.safe_bytes == told["safe_used_peak_bytes"]


def test_a_yaml_with_errors_is_neither_run_nor_predicted() -> None:
    with pytest.raises(ValueError, match="many_at_once"):
        swapconf.dry_run(MISTAKE)
    with pytest.raises(ValueError, match="many_at_once"):
        swapconf.what_if(TRACE, MISTAKE)


def test_a_rank_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="4096"):
        swapconf.dry_run(EXAMPLE, rank=4096)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(SwapconfError, match=r"nowhere\.yaml"):
        swapconf.check("nowhere.yaml")


def test_importing_it_loads_nothing() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, swapconf; print(sorted(name for name in sys.modules "
            "if name.startswith('swapconf.')), 'numpy' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] False"
