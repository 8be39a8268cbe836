"""One PyNative training process, without mindspore: what the seam is told for the layers that the process has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swapconf.config.yaml_document import parse
from swapconf.train.pynative_hook import ModulesOrder, Passed
from swapconf.train.session import Session
from swapconf.upstream.seams import PYNATIVE_SEAMS
from swapconf.words.findings import SwapconfError
from tests.helpers import ROOT
from tests.unit.test_pynative_modules import LAYER
from tests.unit.test_seams import fabricate

SECTIONS: dict[str, dict[str, Any]] = {
    "recompute": {"mode": "select", "full_recompute_layer": ["3"], "select_module": {".*linear_fc1": ["0-2"]}},
    "recompute_comm": {"enable": False},
    "swap": {
        "enable": True,
        "default_prefetch": 1,
        "layer_swap": [{"layers": ["0"]}],
        "op_swap": [{"op_name": ".*attention", "layers": ["0-1"]}],
    },
}
YAML = """
recompute: {mode: select, full_recompute_layer: ['3'], select_module: {'.*linear_fc1': ['0-2']}}
swap:
  enable: True
  default_prefetch: 1
  layer_swap: [{layers: ['0']}]
  op_swap: [{op_name: '.*attention', layers: ['0-1']}]
training: {global_batch_size: 8, local_batch_size: 1}
model: {model_type: qwen3, num_hidden_layers: 4}
"""


def passed(layers: range = range(4), **changes: Any) -> Passed:
    return Passed(
        sections={**SECTIONS, **changes}, num_layers=4, num_mtp_layers=0, modules=dict.fromkeys(layers, LAYER)
    )


def order(given: Passed, text: str = YAML) -> ModulesOrder:
    return Session(parse(text, "train.yaml")).modules(given)


def test_what_is_passed_on_is_what_is_decided_each_by_its_own_path() -> None:
    told = order(passed())
    assert told.sections == {
        "recompute": {"mode": "select", "full_recompute_layer": ["3"], "select_module": {r"mlp\.linear_fc1": ["0-2"]}},
        "recompute_comm": {"enable": False, "select_module": None},
        "swap": {"enable": True, "layer_swap": None, "op_swap": [{"op_name": "self_attention", "layers": ["0-1"]}]},
    }
    assert told.lines == ("Skip layer swap at layer 0: recomputed there: mlp.linear_fc1 [pynative-overlap]",)


def test_a_stage_of_a_pipeline_is_told_of_its_layers_only() -> None:
    no_swap = YAML.replace("enable: True", "enable: False")
    told = order(passed(range(2, 4), swap={"enable": False}), no_swap)
    assert told.sections["recompute"]["select_module"] == {r"mlp\.linear_fc1": ["2"]}
    assert told.sections["recompute"]["full_recompute_layer"] == ["3"]


def test_nothing_that_is_left_switches_a_section_off() -> None:
    text = YAML.replace(".*linear_fc1", "self_attention")
    told = order(passed(recompute={**SECTIONS["recompute"], "select_module": {"self_attention": ["0-2"]}}), text)
    assert told.sections["swap"] == {"enable": False, "layer_swap": None, "op_swap": None}
    assert len(told.lines) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"swap": {**SECTIONS["swap"], "layer_swap": [{"layers": ["1"]}]}}, "another swap"),
        ({"recompute": {"mode": "None"}}, "another recompute"),
    ],
)
def test_what_is_passed_otherwise_is_an_error_and_no_second_reading(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SwapconfError, match=words) as error:
        order(passed(**changes))
    assert {finding.rule for finding in error.value.findings} == {"passed-otherwise"}


def test_another_number_of_layers_is_an_error() -> None:
    with pytest.raises(SwapconfError, match="mindformers builds 4 layers, and the config was read as 5"):
        order(passed(), YAML.replace("num_hidden_layers: 4", "num_hidden_layers: 5"))


def test_a_yaml_that_does_not_give_the_number_of_layers_is_laid_out_as_mindformers_does() -> None:
    assert order(passed(), YAML.replace(", num_hidden_layers: 4", "")) == order(passed())


def test_without_a_yaml_what_is_passed_is_the_config() -> None:
    assert Session().modules(passed()) == order(passed())


def test_errors_stop_the_process() -> None:
    with pytest.raises(SwapconfError, match="cannot be swapped"):
        Session().modules(passed(swap={**SECTIONS["swap"], "layer_swap": [{"layers": ["3"]}]}, recompute={}))


def test_where_the_seam_is_never_reached_the_log_says_what_is_skipped_and_why() -> None:
    session = Session(parse(YAML, "train.yaml"))
    alone = session.lines_without_seam(is_parallel=False)
    assert alone[0] == (
        "Skip select recompute at layer 0: mlp.linear_fc1, mindformers applies it on several cards only "
        "[pynative-one-card]"
    )
    assert all(line.startswith("Skip ") for line in alone)
    assert "does not apply it to this model [pynative-runtime]" in session.lines_without_seam(is_parallel=True)[0]
    session.modules(passed())
    assert session.lines_without_seam(is_parallel=True) == ()


def test_a_run_of_graph_mode_says_nothing_of_it() -> None:
    graph = "swap_config: {swap: True}\nmodel: {model_config: {num_layers: 2}}\n"
    assert Session(parse(graph, "t.yaml")).lines_without_seam(is_parallel=False) == ()


def test_where_a_seam_is_missing_swapconf_steps_aside_aloud_before_the_script_starts(tmp_path: Path) -> None:
    fabricate(tmp_path, seams=PYNATIVE_SEAMS, without=(PYNATIVE_SEAMS[0],))
    config, script = tmp_path / "train.yaml", tmp_path / "script.py"
    config.write_text(YAML)
    script.write_text("print('the script runs')")
    done = subprocess.run(
        [sys.executable, "-m", "swapconf", "run", str(script), "--config", str(config)],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "activation_checkpoint has no apply_ac" in done.stderr
    assert done.stderr.count("steps aside") == 1
    assert "the script runs" in done.stdout
