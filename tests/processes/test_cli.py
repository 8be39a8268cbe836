from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from swapconf.cli.main import COMMANDS
from tests.helpers import ROOT, invoke

EXAMPLE = str(ROOT / "configs/llama2_7b/example4_swap_with_recompute.yaml")

WRONG = """\
swap_config:
  swap: True
  op_swap:
    - {op_name: attention.wq, backward_prefetch: 0, layers: [0]}
    - {op_name: attention.wq, backward_prefetch: 2, layers: [9]}
model:
  model_config: {type: LlamaConfig, num_layers: 4, use_flash_attention: True}
  arch: {type: LlamaForCausalLM}
"""


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG)
    return str(path)


def test_check_prints_every_finding_sorted_and_fails(wrong: str) -> None:
    result = invoke("check", wrong)
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if ": error: " in line]
    assert [line.removeprefix(wrong).split("  ")[0] for line in lines] == [":4:17", ":4:50", ":5:17", ":5:61"]
    assert lines[1].startswith(f"{wrong}:4:50  swap_config.op_swap[0].backward_prefetch: error: 0 is below 1; ")
    assert lines[1].endswith("[bad-value]")


def test_check_json(wrong: str) -> None:
    records = json.loads(invoke("check", "--format", "json", wrong).stdout)
    assert {"file", "line", "column", "path", "rule", "severity", "message", "hint"} == set(records[0])
    assert ("op-unescaped-dot", 5, 17) in [(r["rule"], r["line"], r["column"]) for r in records]


def test_exit_codes(wrong: str, tmp_path: Path) -> None:
    assert invoke("check", EXAMPLE).exit_code == 0
    assert invoke("check", "--strict", EXAMPLE).exit_code == 0  # notes only
    warned = tmp_path / "warned.yaml"
    warned.write_text("swap_config: {layer_swap: [{backward_prefetch: 1, layers: True}]}\n")
    assert invoke("check", str(warned)).exit_code == 0
    assert invoke("check", "--strict", str(warned)).exit_code == 1
    assert invoke("check", wrong, str(tmp_path / "missing.yaml")).exit_code == 2
    assert invoke("check").exit_code == 2


def test_an_unreadable_file_does_not_hide_the_others(wrong: str, tmp_path: Path) -> None:
    result = invoke("check", str(tmp_path / "missing.yaml"), wrong)
    assert "file-not-found" in result.stdout
    assert "op-unescaped-dot" in result.stdout


def test_check_tells_the_version_that_decides(tmp_path: Path) -> None:
    file = tmp_path / "r2.yaml"
    file.write_text(
        WRONG.replace(
            "attention.wq, backward_prefetch: 0, layers: [0]", "ffn_norm, backward_prefetch: 5, layers: [1]"
        ).replace("layers: [9]", "layers: [1]")
        + "recompute_config: {select_recompute: {feed_forward: [1]}}\n"
    )
    old = invoke("check", "--mindspore-version", "2.6.0", str(file)).stdout
    new = invoke("check", "--mindspore-version", "2.9.0", str(file)).stdout
    r2_old, r2_new = ([line for line in text.splitlines() if "R2" in line] for text in (old, new))
    assert "warning" in r2_old[0]
    assert "2.6.0" in r2_old[0]
    assert "documented" in r2_old[0]
    assert "note" in r2_new[0]
    assert "measured" in r2_new[0]


def test_explain_shows_table_and_log_lines() -> None:
    result = invoke("explain", EXAMPLE)
    assert result.exit_code == 0
    assert "  Set op_swap at layer 1: .attention, value=20, .feed_forward, value=15" in result.stdout.splitlines()
    row = next(line for line in result.stdout.splitlines() if line.startswith("1-2") and "feed_forward" in line)
    assert row.split() == ["1-2", "feed_forward", "swap", "(op_swap)", "swap", "15", "17", "of", "17", "as", "asked"]


def test_explain_one_layer_as_json() -> None:
    result = invoke("explain", EXAMPLE, "--layer", "0", "--format", "json")
    (layer,) = json.loads(result.stdout)["layers"]
    sites = {site["operator"]: site for site in layer["sites"]}
    assert sites["feed_forward.mul"]["effective"] == "recompute"
    assert sites["feed_forward.mul"]["recompute_root"] == "feed_forward"
    assert sites["attention.wq.matmul"]["prefetch"] == 20
    assert layer["log_lines"] == [
        "Set select recompute at layer 0: feed_forward",
        "Set op_swap at layer 0: .attention, value=20",
    ]


def test_explain_says_that_nothing_takes_effect_where_nothing_is_trained() -> None:
    told = "nothing of this takes effect"
    assert told in invoke("explain", EXAMPLE, "--set", "run_mode=predict").stdout
    assert told not in invoke("explain", EXAMPLE).stdout


def test_explain_refuses_what_it_cannot_show(tmp_path: Path) -> None:
    assert invoke("explain", EXAMPLE, "--layer", "4").exit_code == 2
    assert invoke("explain", str(tmp_path / "missing.yaml")).exit_code == 2
    bare = tmp_path / "bare.yaml"
    bare.write_text("swap_config: {swap: True}\nmodel:\n  model_config: {type: LlamaConfig}\n")
    result = invoke("explain", str(bare))
    assert result.exit_code == 2
    assert f"{bare}:3: the YAML does not give the number of layers (num_layers or num_hidden_layers in" in result.stderr


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(WRONG.replace("attention.wq, backward_prefetch: 0", '"\\e[2J\\ninjected", backward_prefetch: 1'))
    out = invoke("check", str(file)).stdout
    assert "\x1b" not in out
    assert not [line for line in out.splitlines() if line.startswith("injected")]


@pytest.mark.parametrize("command", [name.replace("_", "-") for name in COMMANDS])
def test_every_command_has_help(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert len(result.stdout) > 100


def test_rules_and_families() -> None:
    assert "op-no-match: " in invoke("rules").stdout
    assert invoke("rules", "op-no-match").stdout.startswith("op-no-match: ")
    assert invoke("rules", "bad-type").stdout.startswith("bad-type: ")
    assert invoke("rules", "nope").exit_code == 2
    assert "llama" in invoke("families").stdout


# what checking one file in the terminal has no use for
HEAVY = (
    "mindspore",
    "mindformers",
    "numpy",
    "torch",
    "rich",
    "ruamel",
    "pathspec",
    "xml.etree.ElementTree",
    "multiprocessing",
    "swapconf.checking.fixes",
)


@pytest.mark.parametrize("words", [["check", EXAMPLE], ["--help"]])
def test_check_imports_no_framework(words: list[str]) -> None:
    assert not set(HEAVY) & loaded_by(words)


def test_check_of_graph_mode_loads_nothing_of_pynative() -> None:
    assert not {name for name in loaded_by(["check", EXAMPLE]) if "pynative" in name or "decide.module" in name}


def loaded_by(words: list[str]) -> set[str]:
    """The modules that are loaded when a command has ended."""
    code = (
        "import sys, contextlib\nfrom swapconf.cli.main import main\n"
        f"with contextlib.suppress(SystemExit): main({words!r})\n"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.splitlines()[-1].split())
