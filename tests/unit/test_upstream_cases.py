"""Every config that mindformers swallows, misreports or accepts (measured) gives exactly the findings it deserves."""

from __future__ import annotations

import pytest

from tests.helpers import study_of_values
from tests.unit.upstream_cases import CASES, Case

# a 4-layer Llama for which nothing else is to be said
BASE = {
    "use_legacy": True,
    "use_parallel": True,
    "run_mode": "train",
    "context": {"mode": 0, "device_target": "Ascend", "memory_optimize_level": "O0", "jit_config": {"jit_level": "O0"}},
    "parallel": {"parallel_mode": 1},
    "parallel_config": {"pipeline_stage": 1},
    "runner_config": {"gradient_accumulation_steps": 2},
    "model": {
        "model_config": {"type": "LlamaConfig", "num_layers": 4, "use_flash_attention": True},
        "arch": {"type": "LlamaForCausalLM"},
    },
}

# right as they stand, in mindformers and in swapconf
VALID = {
    "op_bs_dot",
    "op_star_norm",
    "op_alt",
    "op_prim_add",
    "op_list",
    "op_as_dict",
    "ls_true_and_list_same",
    "ls_and_op",
    "default_swap",
    "rc_noswap_list",
    "excl_sub_noswap",
}


def findings(case: Case) -> list[tuple[str, str, str]]:
    config = {**BASE, "swap_config": case.swap, "recompute_config": case.recompute}
    study = study_of_values(config)
    return sorted((found.severity.value, found.rule, found.origin.path) for found in study.findings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_findings(case: Case) -> None:
    assert findings(case) == sorted(case.findings)


def test_all_measured_cases_are_here() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 111


def test_valid_cases_give_nothing_and_all_others_something() -> None:
    assert {case.name for case in CASES if not case.findings} == VALID


def test_what_mindformers_stops_on_is_an_error_or_said_to_work_here() -> None:
    for case in CASES:
        if case.upstream.startswith("ERR"):
            told = {severity for severity, _, _ in case.findings}
            rules = {rule for _, rule, _ in case.findings}
            assert "error" in told or "plain-mindformers-differs" in rules, case.name
