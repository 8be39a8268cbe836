"""Lists that mean counts or layers, models that are nearly known, and keys that stop an mcore model."""

from __future__ import annotations

import pytest

from swapconf.config.yaml_document import parse
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Severity
from tests.unit.findings_of import LLAMA, QWEN3, found, of, only

SWAP = "swap_config: {swap: True, layer_swap: [{layers: [0], backward_prefetch: 2}]}\n"


def recompute(written: str, stages: int = 2, num_layers: int = 4, swap: str = "") -> tuple[Finding, ...]:
    base = LLAMA.replace("pipeline_stage: 2", f"pipeline_stage: {stages}")
    base = base.replace("num_layers: 4", f"num_layers: {num_layers}")
    return found(f"{swap}recompute_config: {{{written}}}\n{base}")


# --- swap is off: counts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "stages", "severity", "message"),
    [
        ("recompute: [5]", 1, Severity.WARNING, "stage 0 has 4 layers, not 5"),
        ("recompute: [0, 3]", 2, Severity.WARNING, "stage 1 has 2 layers, not 3"),
        ("recompute: [1, 1]", 4, Severity.WARNING, "2 counts for 4 stages, so that the others recompute nothing"),
        ("recompute: [1]", 2, Severity.WARNING, "1 count for 2 stages"),
        ("select_recompute: {feed_forward: [0, 3]}", 2, Severity.WARNING, "stage 1 has 2 layers, not 3"),
        ("recompute: [True, True, False, False]", 1, Severity.ERROR, "4 counts for 1 pipeline stage"),
        ("recompute: [1, -1]", 2, Severity.ERROR, "a count of layers cannot be -1"),
    ],
)
def test_counts_that_do_not_fit_are_one_finding(written: str, stages: int, severity: Severity, message: str) -> None:
    (finding,) = recompute(written, stages)
    assert (finding.rule, finding.severity) == ("recompute-count", severity)
    assert message in finding.message


def test_true_in_a_list_is_said_to_be_a_stage() -> None:
    (finding,) = recompute("recompute: [True, True, False, False]", 1)
    assert finding.hint.startswith("True stands for every layer of a stage")


@pytest.mark.parametrize(
    "written",
    [
        "recompute: [2, 2]",
        "recompute: [0, 2]",
        "recompute: [True, False]",
        "recompute: [[1, 1]]",
        "recompute: [0]",
        "recompute: []",
    ],
)
def test_counts_that_fit_are_no_finding(written: str) -> None:
    assert recompute(written) == ()


# --- swap is on: layers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "stages", "num_layers", "hint"),
    [
        ("recompute: [7, 7]", 2, 28, "[0, 1, 2, 3, 4, 5, 6, 14, 15, 16, 17, 18, 19, 20]"),
        ("recompute: [3, 2, 0, 0]", 4, 16, "[0, 1, 2, 4, 5]"),
        ("recompute: [6, 3, 2, 3]", 4, 40, "[0, 1, 2, 3, 4, 5, 10, 11, 12, 20, 21, 30, 31, 32]"),
        ("recompute: [1, 2]", 2, 4, "[0, 2, 3]"),
    ],
)
def test_a_list_that_looks_like_counts_is_a_warning_with_the_layers_that_counts_mean(
    written: str, stages: int, num_layers: int, hint: str
) -> None:
    (finding,) = (one for one in recompute(written, stages, num_layers, SWAP) if one.rule == "R3-list-meaning")
    assert finding.severity is Severity.WARNING
    assert f"write {hint}" in finding.hint


def test_the_layers_of_the_hint_are_what_the_counts_mean() -> None:
    """Switched off, the counts decide what the hint lists with swap on."""
    base = LLAMA.replace("pipeline_stage: 2", "pipeline_stage: 4").replace("num_layers: 4", "num_layers: 16")
    counts, layers = (f"recompute_config: {{recompute: {text}}}\n" for text in ("[3, 2, 0, 1]", "[0, 1, 2, 4, 5, 12]"))
    counted, listed = (
        study_document(parse(text + base, "f.yaml"), Versions(), {}).strategy for text in (counts, SWAP + layers)
    )
    assert counted is not None
    assert listed is not None
    done = [
        [any(outcome.request.kind == "recompute" for outcome in entry.plan.outcomes) for entry in strategy.layers]
        for strategy in (counted, listed)
    ]
    assert done[0] == done[1]
    hint = of(SWAP + counts + base, "R3-list-meaning").hint
    assert "[0, 1, 2, 4, 5, 12]" in hint


def test_a_section_has_one_finding_of_it_which_names_every_list() -> None:
    lists = (
        "recompute: [1, 1], select_recompute: {attention: [2, 0], feed_forward: [1, 1]}, "
        "select_comm_recompute: {'.*\\.norm': [1, 1]}"
    )
    (finding,) = (one for one in recompute(lists, swap=SWAP) if one.rule == "R3-list-meaning")
    assert "`select_recompute.attention`, `select_recompute.feed_forward`" in finding.message
    assert "`select_recompute.attention: [0, 1]`" in finding.hint


@pytest.mark.parametrize(
    ("written", "stages"), [("recompute: [2]", 1), ("recompute: [0, 2, 3]", 2), ("recompute: [2, 3]", 2)]
)
def test_a_list_that_looks_like_layers_stays_a_note(written: str, stages: int) -> None:
    (finding,) = (one for one in recompute(written, stages, swap=SWAP) if one.rule == "R3-list-meaning")
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("recompute: [[1, 1]]", "[0, 2]"),
        ("recompute: [[2, 0]]", "[0, 1]"),
        ("select_recompute: {attention: [[0, 2]]}", "[2, 3]"),
    ],
)
def test_nested_counts_beside_swap_are_told_with_their_own_layers(written: str, hint: str) -> None:
    (finding,) = (one for one in recompute(written, swap=SWAP) if one.rule == "recompute-form")
    assert finding.severity is Severity.ERROR
    assert finding.hint.startswith(f"as counts this would mean {hint};")


def test_a_selection_in_layers_that_are_recomputed_as_a_whole_is_a_note() -> None:
    (finding,) = recompute("recompute: True, select_recompute: {attention: [1, 1]}")
    assert (finding.rule, finding.severity) == ("recompute-void", Severity.NOTE)
    assert finding.message.startswith("no effect in layers 0, 2: line 1 recomputes")


# --- the deal of the layers -------------------------------------------------------------------------------------------

UNKNOWN = LLAMA.replace("LlamaConfig", "MyConfig").replace("LlamaForCausalLM", "MyModel")


def test_a_broken_deal_breeds_no_wrong_counts() -> None:
    text = "recompute_config: {recompute: [2, 1]}\n" + LLAMA.replace("num_layers: 4", "num_layers: 5")
    (finding,) = found(text)
    assert (finding.rule, finding.severity) == ("stage-offset", Severity.ERROR)


def test_an_unknown_model_may_deal_otherwise() -> None:
    text = "recompute_config: {recompute: [2, 1]}\n" + UNKNOWN.replace("num_layers: 4", "num_layers: 5")
    assert {(one.rule, one.severity) for one in found(text)} == {
        ("stage-offset", Severity.NOTE),
        ("unknown-family", Severity.NOTE),
    }


# --- which model ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        (LLAMA.replace("LlamaConfig", "LlamaConfg"), 6, "`LlamaConfig` was probably meant"),
        (LLAMA.replace("LlamaForCausalLM", "LlamaForCausalLm"), 7, "`LlamaForCausalLM` was probably meant"),
        (QWEN3.replace("Causal", "Casual"), 6, "`Qwen3ForCausalLM` was probably meant"),
        (QWEN3.replace("use_legacy: False\n", ""), 5, "write `use_legacy: False`"),
        (QWEN3.replace("use_legacy: False", "use_legacy: True"), 2, "write `use_legacy: False`"),
        ("use_legacy: False\n" + LLAMA, 2, "remove `use_legacy: False`"),
    ],
)
def test_a_model_that_is_nearly_known_is_a_warning_at_its_place(text: str, line: int, hint: str) -> None:
    finding = of(SWAP + text, "unknown-family")
    assert (finding.severity, finding.origin.line) == (Severity.WARNING, line)
    assert hint in finding.hint


def test_a_model_that_is_not_known_is_a_note_at_its_class() -> None:
    finding = of(SWAP + UNKNOWN, "unknown-family")
    assert (finding.severity, finding.origin.path, finding.origin.line) == (Severity.NOTE, "model.model_config.type", 6)


@pytest.mark.parametrize(
    ("text", "path", "line", "told"),
    [
        (LLAMA.replace("LlamaForCausalLM", "OurModelWithLoss"), "model.arch.type", 7, "`OurModelWithLoss` is not in"),
        (LLAMA.replace("{type: LlamaConfig", "{type: OurSizes"), "model.model_config.type", 6, "`OurSizes` is not in"),
        (QWEN3.replace("qwen3", "ours"), "model.model_config.model_type", 6, "`ours` is not in"),
        (QWEN3.replace("Qwen3For", "SomethingFor"), "model.model_config.architectures", 6, "`SomethingForCausalLM` is"),
        (QWEN3.replace("Qwen3ForCausalLM", "[OurNet, B]"), "model.model_config.architectures", 6, "`OurNet` is not in"),
        (
            LLAMA.replace("LlamaForCausalLM", "ChatGLM2ForConditionalGeneration"),
            "model.arch.type",
            7,
            "is another model than `LlamaConfig`",
        ),
        (
            LLAMA.replace("LlamaForCausalLM}", "My, auto_register: a.My}"),
            "model.arch.auto_register",
            7,
            "this model is",
        ),
        (
            LLAMA.replace("{type: LlamaC", "{auto_register: a.C, type: LlamaC"),
            "model.model_config.auto_register",
            6,
            "",
        ),
        (LLAMA.replace("num_layers: 4, ", ""), "model.model_config", 6, "does not give the number of layers"),
    ],
)
def test_what_is_unknown_of_a_model_is_pointed_at(text: str, path: str, line: int, told: str) -> None:
    finding = of(SWAP + text, "unknown-family")
    assert (finding.origin.path, finding.origin.line) == (path, line)
    assert told in finding.message


def test_a_setting_that_the_catalog_does_not_know_is_pointed_at() -> None:
    text = "recompute_config: {recompute: True}\nmoe_config: {expert_num: 8}\n" + LLAMA
    assert of(text, "unknown-family").origin.path == "moe_config.expert_num"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("swap_config: {swap: False}\nrecompute_config: {recompute: True}\n", "recompute_config.recompute"),
        (
            "swap_config: {swap: False}\nrecompute_config: {recompute: False, select_recompute: {attention: True}}\n",
            "recompute_config.select_recompute",
        ),
        ("recompute_config: {recompute: True}\n" + SWAP, "swap_config.swap"),
    ],
)
def test_what_is_said_of_all_that_is_asked_stands_where_something_is_asked(text: str, path: str) -> None:
    pair = Versions(mindspore="2.7.1", mindformers="1.9.0")
    (finding,) = (one for one in found(text + LLAMA, pair) if one.rule == "version-pair")
    assert finding.origin.path == path


def test_text_for_use_legacy_is_an_error_and_read_as_meant() -> None:
    text = SWAP + QWEN3.replace("use_legacy: False", 'use_legacy: "False"')
    finding = of(text, "bad-value")
    assert (finding.severity, finding.origin.line, finding.hint) == (Severity.ERROR, 2, "write False without quotes")
    assert {one.rule for one in found(text)} == {"bad-value", "mcore"}


def test_experts_at_the_top_level_are_not_taken_for_none() -> None:
    text = "recompute_config: {recompute: True}\nmoe_config: {expert_num: 8}\n" + LLAMA
    assert "moe_config.expert_num" in of(text, "unknown-family").message
    assert found(text.replace("expert_num: 8", "expert_num: 1")) == ()


# --- mcore ------------------------------------------------------------------------------------------------------------


def model(settings: str) -> str:
    return QWEN3.replace("num_hidden_layers: 4", f"num_hidden_layers: 4, {settings}")


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ("cpu_offloading: True", "write `swap` instead"),
        ("cpu_offloading: False", "write `swap` instead"),
        ("swap: True, cpu_offloading_num_layers: [{layers: [0], backward_prefetch: 2}]", "write `layer_swap` instead"),
        ("recompute: True", "move it to `recompute_config:`"),
        ("recompute: False", "move it to `recompute_config:`"),
        ("select_recompute: {mlp: True}", "move it to `recompute_config:`"),
        ("mp_comm_recompute: False", "move it to `recompute_config:`"),
    ],
)
def test_what_stops_the_converter_is_an_error(settings: str, hint: str) -> None:
    finding = only(model(settings)) if "mp_comm" not in settings else of(model(settings), "mcore")
    assert (finding.rule, finding.severity) == ("mcore", Severity.ERROR)
    assert hint in finding.hint


def test_it_depends_on_the_version() -> None:
    text = model("swap: True, cpu_offloading_num_layers: [{layers: [0], backward_prefetch: 2}]")
    assert [one.rule for one in found(text, Versions(mindformers="1.7.0")) if one.severity is Severity.ERROR] == []


def test_the_default_strategy_of_plain_mindformers_swaps_nothing_there() -> None:
    finding = only(model("swap: True"))
    assert (finding.rule, finding.severity) == ("mcore", Severity.NOTE)
    assert "swaps nothing" in finding.message
    assert found(model("swap: True, layer_swap: [{layers: [0], backward_prefetch: 2}]")) == ()


@pytest.mark.parametrize(
    ("written", "hint"),
    [("-1", "correct the value"), ("1", "write True"), ("0", "write False"), ("2.5", "correct the value")],
)
def test_a_number_for_use_legacy_is_an_error(written: str, hint: str) -> None:
    (error,) = [one for one in found(f"use_legacy: {written}\n{LLAMA}") if one.severity is Severity.ERROR]
    assert (error.rule, error.origin.line, hint in error.hint) == ("bad-value", 1, True)
