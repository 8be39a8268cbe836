"""Sections and keys under another name, or where nothing reads them: located, with what was meant, told once."""

from __future__ import annotations

import pytest

from swapconf.config.meant import meant
from swapconf.config.misplaced import _MAX_KEYS
from swapconf.words.findings import Severity
from tests.unit.findings_of import LLAMA, PYNATIVE, QWEN3, found, of, only

SECTION = "{swap: True, layer_swap: [{layers: [0], backward_prefetch: 2}]}"


@pytest.mark.parametrize(
    ("text", "place", "rule", "hint"),
    [
        (f"swap-config: {SECTION}\n" + LLAMA, (1, 1), "unknown-section", "`swap_config` was probably meant"),
        (f"swapconfig: {SECTION}\n" + LLAMA, (1, 1), "unknown-section", "`swap_config` was probably meant"),
        (f"Swap_config: {SECTION}\n" + LLAMA, (1, 1), "unknown-section", "`swap_config` was probably meant"),
        (f"swap_cfg: {SECTION}\n" + LLAMA, (1, 1), "unknown-section", "`swap_config` was probably meant"),
        ("recompute_conf: {recompute: True}\n" + LLAMA, (1, 1), "unknown-section", "`recompute_config` was probably"),
        (f"swap_соnfig: {SECTION}\n" + LLAMA, (1, 1), "unknown-section", "CYRILLIC SMALL LETTER ES"),
        ("op_swap: [{op_name: attention}]\n" + LLAMA, (1, 1), "section-misplaced", "below `swap_config:`"),
        ("layer_swap: [{layers: [0]}]\n" + LLAMA, (1, 1), "section-misplaced", "below `swap_config:`"),
        ("default_prefetch: 3\n" + LLAMA, (1, 1), "section-misplaced", "below `swap_config:`"),
        ("select_recompute: True\n" + LLAMA, (1, 1), "section-misplaced", "below `recompute_config:`"),
        ("swap: True\nop_swp: [1]\n" + LLAMA, (1, 1), "section-misplaced", "below `swap_config:`"),
        (LLAMA.replace("model:\n", f"model:\n  swap_config: {SECTION}\n"), (5, 3), "section-misplaced", "top level"),
        (
            LLAMA.replace("{type: LlamaC", f"{{swap_config: {SECTION}, type: LlamaC"),
            (5, 18),
            "section-misplaced",
            "top level",
        ),
        (LLAMA.replace("{mode", f"{{swap_config: {SECTION}, mode"), (3, 11), "section-misplaced", "top level"),
        (LLAMA.replace("{pipeline", f"{{swap_config: {SECTION}, pipeline"), (2, 19), "section-misplaced", "top level"),
        (LLAMA.replace("{pipeline", "{recompute: True, pipeline"), (2, 19), "section-misplaced", "`recompute_config:`"),
        (
            LLAMA.replace("{pipeline", "{recompute: False, pipeline"),
            (2, 19),
            "section-misplaced",
            "`recompute_config:`",
        ),
        (f"train_more: {{swap_config: {SECTION}}}\n" + LLAMA, (1, 14), "section-misplaced", "top level"),
        (
            LLAMA.replace("{type: LlamaC", "{op_swp: [1], type: LlamaC"),
            (5, 18),
            "unknown-key",
            "`op_swap` was probably",
        ),
        (
            QWEN3.replace("{model_type", "{op_swp: [1], model_type"),
            (5, 18),
            "unknown-key",
            "`op_swap` was probably meant",
        ),
        (
            QWEN3.replace("{model_type", "{select_recompte: True, model_type"),
            (5, 18),
            "unknown-key",
            "`select_recompute`",
        ),
        (
            PYNATIVE.replace("{steps", "{swap: {enable: True, layer_swap: [{layers: ['0']}]}, steps"),
            (1, 12),
            "section-misplaced",
            "top level",
        ),
        ("full_recompute_layer: ['0']\n" + PYNATIVE, (1, 1), "section-misplaced", "below `recompute:`"),
        (
            "swap_config:\n\u3000\u3000swap: True\n\u3000\u3000default_prefetch: 3\n" + LLAMA,
            (2, 1),
            "odd-indentation",
            "ordinary spaces",
        ),
        (
            "swap_config:\n  swap: True\n\u00a0\u00a0default_prefetch: 3\n" + LLAMA,
            (3, 1),
            "odd-indentation",
            "ordinary spaces",
        ),
        (
            "swap_config:\n  swap: True\n  \u00a0default_prefetch: 3\n" + LLAMA,
            (3, 3),
            "odd-indentation",
            "ordinary spaces",
        ),
    ],
)
def test_what_stands_in_a_wrong_place_is_one_error_there(
    text: str, place: tuple[int, int], rule: str, hint: str
) -> None:
    finding = only(text)
    assert (finding.origin.line, finding.origin.column) == place
    assert (finding.rule, finding.severity) == (rule, Severity.ERROR)
    assert hint in finding.hint


def test_keys_that_lost_their_indentation_are_told_together_and_their_section_is_not_called_empty() -> None:
    finding = only("swap_config:\nswap: True\nlayer_swap: [{layers: [0], backward_prefetch: 2}]\n" + LLAMA)
    assert (finding.rule, finding.origin.line) == ("section-misplaced", 2)
    assert "`swap`, `layer_swap`" in finding.message
    assert "`swap_config` of line 1" in finding.hint


@pytest.mark.parametrize("section", ["swap_config", "recompute_config"])
def test_an_empty_section_is_a_warning(section: str) -> None:
    finding = only(f"{section}:\n{LLAMA}")
    assert (finding.rule, finding.severity, finding.origin.line) == ("section-empty", Severity.WARNING, 1)


@pytest.mark.parametrize("section", ["swap", "recompute", "recompute_comm"])
def test_an_empty_section_of_pynative_mode_is_an_error_because_mindformers_stops(section: str) -> None:
    finding = only(f"{section}:\n{PYNATIVE}")
    assert (finding.rule, finding.severity, finding.origin.line) == ("section-empty", Severity.ERROR, 1)


def test_what_asks_for_nothing_is_a_warning() -> None:
    for text in (
        "swap-config: {swap: False}\n" + LLAMA,
        "op_swap: []\n" + LLAMA,
        LLAMA.replace("{mode", "{swap_config: {swap: False}, mode"),
    ):
        assert only(text).severity is Severity.WARNING


@pytest.mark.parametrize(
    "text",
    [
        "optimizer: {type: AdamW, swap: True}\n" + LLAMA,  # PmaAdamW of mindformers 1.9.0
        "train_dataset: {prefetch_size: 1}\n" + LLAMA,
        LLAMA.replace("{type: L", "{no_recompute_layers: [0], type: L"),  # GLM32k
        "callbacks: [{type: A, swap_config: 1}]\n" + LLAMA,
        "swap_config: {}\n" + LLAMA,
        "manual1: {recompute: [1], select_recompute: [1]}\n",  # pipeline_balance
    ],
)
def test_what_belongs_to_others_is_left_alone(text: str) -> None:
    assert found(text) == ()


def test_a_path_of_operators_may_begin_with_any_character() -> None:
    finding = only("recompute_config: {select_recompute: {'\u2003attention': [1, 1]}}\n" + LLAMA)
    assert (finding.rule, finding.severity) == ("op-no-match", Severity.WARNING)
    assert "U+2003" in finding.hint


def test_a_name_is_known_but_for_its_spelling() -> None:
    names = ("swap_config", "recompute_config", "swap")
    assert [meant(key, names) for key in ("SWAP-CONFIG", "swap.config", "recompute_cfg", "swp_config", "Swap")] == [
        "swap_config",
        "swap_config",
        "recompute_config",
        "swap_config",
        "swap",
    ]
    assert [meant(key, names) for key in ("swaps", "parallel_config", "moe_config", "")] == [None] * 4


def test_a_file_of_nothing_but_keys_is_looked_at_in_part() -> None:
    many = "other:\n" + "".join(f"  key_{number}: 1\n" for number in range(_MAX_KEYS))
    assert only("swap-config: {swap: True}\n" + many + LLAMA).rule == "unknown-section"


def test_sections_of_graph_mode_in_a_pynative_yaml_are_each_an_error() -> None:
    findings = found("swap_config: {swap: True}\nrecompute_config: {recompute: True}\n" + PYNATIVE)
    assert [(one.rule, one.severity, one.origin.line) for one in findings] == [
        ("two-dialects", Severity.ERROR, 1),
        ("two-dialects", Severity.ERROR, 2),
    ]
    assert "--from legacy --to pynative" in findings[0].hint


def test_keys_of_the_other_section_are_sent_there() -> None:
    assert "belongs to `swap_config`" in of("recompute_config: {op_swap: []}\n" + LLAMA, "unknown-key").hint
    assert "belongs to `recompute_config`" in of("swap_config: {recompute: True}\n" + LLAMA, "unknown-key").hint
