"""One rule at a time, on a whole YAML: the failing and the passing example of its manual page, and its edges."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from swapconf.config.config import Dialect
from swapconf.config.nodes import from_plain, nowhere
from swapconf.decide.rules import PYNATIVE_ALONE, dialects_of, every_rule
from swapconf.study.settings import NONE
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from tests.helpers import AS_WRITTEN, ROOT, study_of, study_of_values
from tests.unit.test_upstream_cases import BASE

QWEN3 = {"model_type": "qwen3", "architectures": "Qwen3ForCausalLM"}
ONCE = {"gradient_accumulation_steps": 1}
LISTED = {"swap": True, "op_swap": [{"op_name": "attention", "backward_prefetch": 5, "layers": True}]}


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        **base,
        **{
            key: merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
            for key, value in changes.items()
        },
    }


def found(
    changes: dict[str, Any], versions: Versions | None = None, environment: dict[str, str] | None = None
) -> dict[str, str]:
    """Rule -> severity, for the base config with some changes."""
    document = from_plain(merged(BASE, changes), nowhere())
    study = study_document(document, versions or Versions(), environment or {})
    return {finding.rule: finding.severity.value for finding in study.findings}


def op(name: str, prefetch: int = 5, layers: object = True) -> dict[str, Any]:
    return {
        "swap_config": {"swap": True, "op_swap": [{"op_name": name, "backward_prefetch": prefetch, "layers": layers}]}
    }


def model(**settings: Any) -> dict[str, Any]:
    return {"model": {"model_config": settings}}


@pytest.mark.parametrize(
    ("changes", "rule", "severity"),
    [
        (op(r"feed_forward\.mul"), "op-moves-nothing", "warning"),
        (op(r"feed_forward\.w1\.activation"), "op-moves-nothing", "warning"),
        (op(r"attention\.wq\.matmul"), "op-moves-nothing", "warning"),
        (op("feed_forward", 99), None, None),
        (op("feed_forward", 100), "prefetch-too-large", "warning"),
        (op("feed_forward", 500), "prefetch-too-large", "warning"),
        (op("feed_forward", 5000), "prefetch-too-large", "warning"),
        (op("feed_forward", 2**31), "prefetch-too-large", "error"),
        ({"swap_config": {"swap": True, "default_prefetch": 300}}, "prefetch-too-large", "warning"),
        ({"swap_config": {"swap": True}, **model(use_flash_attention=False)}, "default-swap-without-flash", "error"),
        ({"swap_config": LISTED, **model(use_flash_attention=False)}, None, None),
        ({"swap_config": LISTED, "context": {"memory_optimize_level": "O1"}}, "memory-optimize-level", "error"),
        ({"context": {"memory_optimize_level": "O1"}}, None, None),
        ({"swap_config": LISTED, "use_parallel": False, "runner_config": ONCE}, "lazy-inline-off", "warning"),
        ({"swap_config": LISTED, "parallel": {"parallel_mode": "STAND_ALONE"}}, "lazy-inline-off", "warning"),
        ({"swap_config": LISTED, **model(disable_lazy_inline=True)}, "lazy-inline-off", "error"),
        ({"swap_config": LISTED, "runner_config": {"gradient_accumulation_steps": 1}}, "lazy-inline-off", "note"),
        (
            {
                "swap_config": LISTED,
                "runner_config": {"gradient_accumulation_steps": 1},
                "parallel_config": {"pipeline_stage": 2},
            },
            None,
            None,
        ),
        ({"swap_config": LISTED, "context": {"jit_config": {"jit_level": "O2"}}}, "unsupported-runtime", "error"),
        ({"swap_config": LISTED, "context": {"jit_config": {"jit_level": "O1"}}}, None, None),
        ({"swap_config": LISTED, "context": {"device_target": "CPU"}}, "unsupported-runtime", "warning"),
        ({"swap_config": LISTED, "context": {"mode": 1}}, "unsupported-runtime", "error"),
        ({"recompute_config": {"select_recompute": True}}, "recompute-nothing", "warning"),
        (
            {
                "recompute_config": {
                    "select_recompute": {r"feed_forward\.mul": True, r"feed_forward\.w2\.reshape": True}
                }
            },
            None,
            None,
        ),
        (
            {
                "recompute_config": {
                    "select_recompute": {r"feed_forward\.mul": True},
                    "select_comm_recompute": {r"feed_forward\.w2\.reshape": True},
                }
            },
            None,
            None,
        ),
        ({"recompute_config": {"select_recompute": [r"feed_forward\.w1\.activation"]}}, "recompute-nothing", "warning"),
        ({"recompute_config": {"select_recompute": {"feed_forward": True}}}, None, None),
        ({"recompute_config": {"select_comm_recompute": {"feed_forward": True}}}, "recompute-void", "warning"),
        ({"recompute_config": {"recompute": True, "mp_comm_recompute": False}}, "plain-mindformers-differs", "warning"),
        ({"recompute_config": {"recompute": [-1]}}, "recompute-count", "error"),
        ({"parallel_config": {"pipeline_stage": 3}, "runner_config": ONCE}, "stage-offset", "error"),
        ({"parallel_config": {"pipeline_stage": 3}, "runner_config": ONCE, **model(offset=[0, 0, 1])}, None, None),
        (
            {
                "swap_config": LISTED,
                "model": {"model_config": {"type": "MyConfig", "num_layers": 4}, "arch": {"type": "My"}},
            },
            "unknown-family",
            "note",
        ),
        ({"model": {"model_config": {"type": "MyConfig", "num_layers": 4}, "arch": {"type": "My"}}}, None, None),
        (
            {
                "use_legacy": False,
                "model": {"model_config": {**QWEN3, "num_hidden_layers": 2}},
                "swap_config": {"swap": True},
            },
            "mcore",
            "note",
        ),
        (
            {
                "use_legacy": False,
                "model": {"model_config": {**QWEN3, "num_hidden_layers": 2}},
                "recompute_config": {"recompute": True, "recompute_slice_activation": True},
            },
            "mcore",
            "error",
        ),
    ],
)
def test_rule(changes: dict[str, Any], rule: str | None, severity: str | None) -> None:
    assert found(changes) == ({rule: severity} if rule else {})


WHOLE = {"swap": True, "layer_swap": [{"backward_prefetch": 20, "layers": True}]}


@pytest.mark.parametrize(
    ("swap", "recompute", "severity"),
    [
        (WHOLE, {"select_recompute": {"feed_forward": [1]}}, "note"),
        (op("attention")["swap_config"], {"select_recompute": {r"attention\.wq": [1]}}, "note"),
        (WHOLE, {"recompute": [1]}, "warning"),
        (op("attention")["swap_config"], {"select_recompute": {"attention": [1]}}, "warning"),
        (op(r"attention\.wq")["swap_config"], {"select_recompute": {"attention": [1]}}, "warning"),
        (WHOLE, {"select_recompute": {"feed_forward": [1]}, "recompute": [1]}, "warning"),
    ],
)
def test_recompute_of_something_inside_of_a_swap_is_no_clash(
    swap: dict[str, Any], recompute: dict[str, Any], severity: str
) -> None:
    assert found({"swap_config": swap, "recompute_config": recompute})["R1-recompute-wins"] == severity


def test_an_exclusion_inside_of_a_swap_is_a_clash() -> None:
    recompute = {"select_recompute": {"feed_forward": [1]}, "select_recompute_exclude": {r"feed_forward\.mul": [1]}}
    for settings, severity in ((NONE, "note"), (AS_WRITTEN, "warning")):  # mindformers drops it beside swap
        made = study_of_values(merged(BASE, {"swap_config": WHOLE, "recompute_config": recompute}), settings=settings)
        assert [one.severity.value for one in made.findings if one.rule == "R1-recompute-wins"] == [severity]


@pytest.mark.parametrize(
    ("recompute", "told"), [({"recompute": [1, 2]}, False), ({"recompute": True}, True), ({}, True)]
)
def test_an_empty_list_of_swaps_is_right_where_layers_are_named(recompute: dict[str, Any], told: bool) -> None:
    changes = {"swap_config": {"swap": True, "layer_swap": []}, "recompute_config": recompute}
    assert ("swap-nothing" in found(changes)) == told


def test_what_runs_again_reads_the_output_of_a_swap() -> None:
    changes = {**op(r"feed_forward\.mul"), "recompute_config": {"select_recompute": {r"feed_forward\.w2": [1]}}}
    assert "op-moves-nothing" not in found(changes)
    elsewhere = {**op(r"feed_forward\.mul", layers=[0]), "recompute_config": changes["recompute_config"]}
    assert found(elsewhere)["op-moves-nothing"] == "warning"


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        ({}, "does not read the output of"),
        ({"type": "ChatGLM2Config", "arch": "ChatGLM2ForConditionalGeneration"}, "which no layer of this model has"),
    ],
)
def test_built_in_patterns_that_recompute_nothing_say_why(names: dict[str, str], cause: str) -> None:
    changes: dict[str, Any] = {"recompute_config": {"select_recompute": True}}
    if names:
        changes["model"] = {"model_config": {"type": names["type"]}, "arch": {"type": names["arch"]}}
    study = study_document(from_plain(merged(BASE, changes), nowhere()), Versions(), {})
    (told,) = [finding for finding in study.findings if finding.rule == "recompute-nothing"]
    assert cause in str(told.message)
    assert r"feed_forward\.mul" in str(told.message)


def test_lazy_inline_variable_is_asked_for_only_where_the_version_needs_it() -> None:
    old = Versions(mindspore="2.7.2", mindformers="1.6.0")
    assert "lazy-inline-variable" in found({"swap_config": LISTED}, old)
    assert "lazy-inline-variable" not in found({"swap_config": LISTED}, old, {"ENABLE_LAZY_INLINE_NO_PIPELINE": "1"})
    assert "lazy-inline-variable" not in found({"swap_config": LISTED})


def test_a_pattern_for_layers_of_another_kind() -> None:
    deepseek = {
        "use_legacy": False,
        "model": {
            "model_config": {
                "model_type": "deepseek_v3",
                "num_hidden_layers": 4,
                "first_k_dense_replace": 1,
                "num_nextn_predict_layers": 0,
            }
        },
    }
    assert found({**deepseek, **op(r"mlp\.experts", layers=[0])})["op-no-match"] == "error"
    assert "op-no-match" not in found({**deepseek, **op(r"mlp\.experts", layers=[1])})


@pytest.mark.parametrize("module", every_rule(), ids=lambda module: module.RULE)
def test_every_rule_has_a_manual_page_with_an_example(module: Any) -> None:
    page = inspect.getdoc(module) or ""
    assert page.startswith(f"{module.RULE}: ")
    assert len(page.splitlines()) > 2


def test_rule_names_are_unique() -> None:
    names = [module.RULE for module in every_rule()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("module", every_rule(), ids=lambda module: module.RULE)
def test_the_name_of_a_rule_says_whether_it_holds_for_pynative_alone(module: Any) -> None:
    name = module.__name__.rpartition(".")[2]
    assert name.startswith(PYNATIVE_ALONE) == (dialects_of(module) == {Dialect.PYNATIVE})


def test_hints_are_never_empty_and_messages_stay_on_one_line() -> None:
    from tests.unit.upstream_cases import CASES

    for case in CASES:
        config = {**BASE, "swap_config": case.swap, "recompute_config": case.recompute}
        for finding in study_document(from_plain(config, nowhere()), Versions(), {}).findings:
            assert finding.hint
            assert "\n" not in str(finding)


@pytest.mark.parametrize("recompute", [{"recompute": [1]}, {"select_recompute": {"mlp": [1]}}])
def test_an_operator_that_the_model_excludes_is_not_swapped_inside_what_is_recomputed_and_check_says_why(
    recompute: dict[str, Any],
) -> None:
    routed = {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    }
    changes = {**op(r"mlp\.router\.div"), "recompute_config": recompute, "use_legacy": False}
    document = from_plain({**merged(BASE, changes), "model": {"model_config": routed}}, nowhere())
    told = [
        str(finding.message)
        for finding in study_document(document, Versions(), {}).findings
        if finding.rule == "R1-recompute-wins"
    ]
    around = "the whole layer" if "recompute" in recompute else "mlp"
    assert told == [f"this swap has no effect in layer 1: recomputed there: {around}; recompute wins over swap"]


def test_readers_that_a_layout_lacks_read_nothing() -> None:
    """Without tensor parallelism no all-reduce stands behind the projection of a layer of multi-token prediction."""
    linear = r"transformer_layer\.self_attention\.linear_proj\.matmul"
    study = study_of(
        ROOT / "configs/small/deepseek_v3_default_swap.yaml",
        "parallel_config.model_parallel=1",
        f'swap_config={{"swap": true, "op_swap": [{{"op_name": "{linear.replace(chr(92), chr(92) * 2)}", '
        '"backward_prefetch": 5, "layers": true}]}',
    )
    assert {finding.rule for finding in study.findings} & {"op-moves-nothing", "op-no-match"}
