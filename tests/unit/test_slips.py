"""The commonest slips of the hand: each is told with what was probably meant, and nothing that would fail again."""

from __future__ import annotations

import pytest

from swapconf.words.findings import Severity
from swapconf.words.lookalikes import in_ascii, indented_by, strangers, told
from tests.unit.findings_of import LLAMA, PYNATIVE, QWEN3, found, of, only


def op(name: str) -> str:
    return f"swap_config: {{swap: True, op_swap: [{{op_name: {name}, layers: [0], backward_prefetch: 2}}]}}\n"


def layers(written: str) -> str:
    return f"swap_config: {{swap: True, layer_swap: [{{layers: {written}, backward_prefetch: 2}}]}}\n"


@pytest.mark.parametrize(
    ("text", "rule", "hint"),
    [
        (
            op(r"'attention\\.flash_attention'") + LLAMA,
            "bad-pattern",
            r"a backslash too many: write 'attention\.flash_",
        ),
        (op(r'"attention\.flash_attention"') + LLAMA, "yaml-syntax", r"in single quotes: 'attention\.flash_attention'"),
        (op("аttention") + LLAMA, "op-no-match", "CYRILLIC SMALL LETTER A"),
        (op("аttention") + LLAMA, "op-no-match", "'attention' was probably meant"),
        (op("“attention”") + LLAMA, "op-no-match", "LEFT DOUBLE QUOTATION MARK"),
        (op("ａttention") + LLAMA, "op-no-match", "FULLWIDTH LATIN SMALL LETTER A"),
        (op("3") + LLAMA, "bad-type", "give an operator path such as"),
        (layers("[0，1]") + LLAMA, "bad-type", "FULLWIDTH COMMA"),
        (layers("[0，1]") + LLAMA, "bad-type", "write `0, 1`"),
        (layers("2") + LLAMA, "bad-type", "write [2]"),
        ("swap_config:\n  swap：True\n" + LLAMA, "bad-type", "write `swap: True`"),
        ("swap_config:\n  swap：True\n  default_prefetch: 2\n" + LLAMA, "yaml-syntax", "FULLWIDTH COLON"),
        ("swap_config: {swаp: True}\n" + LLAMA, "unknown-key", "CYRILLIC SMALL LETTER A"),
        ("swap_config: {swap: Тrue}\n" + LLAMA, "bad-type", "CYRILLIC CAPITAL LETTER TE"),
        ("swap_config: {swap: True, default_prefetch: 08}\n" + LLAMA, "bad-type", "starts with 0 is octal; write 8"),
        ("swap_config: {swap: True, default_prefetch: '8'}\n" + LLAMA, "bad-type", "write 8 without quotes"),
        (
            "swap_config: {swap: True, default_prefetch: 020}\n" + LLAMA,
            "yaml-trap",
            "write 20 if that was meant, or 16",
        ),
        (
            "swap: {swap: True, layer_swap: [{layers: ['0']}]}\n" + PYNATIVE,
            "unknown-key",
            "`enable` was probably meant",
        ),
        ("recompute: {mode: Full, full_recompute_layer: ['0']}\n" + PYNATIVE, "bad-type", "write full"),
        ("swap_config: {enable: True}\n" + LLAMA, "unknown-key", "`swap` was probably meant"),
        (
            "swap_config: {swap: True, layer_swap: [{layers: [0], backward_prefech: 2}]}\n" + LLAMA,
            "unknown-key",
            "`backward_prefetch` was probably meant",
        ),
        ("swap_config:\n  swap: False\n  recompute_config: {}\n" + LLAMA, "unknown-key", "to the top level"),
        (
            "swap_config: {swap: ture, layer_swap: [{layers: [0], backward_prefetch: 2}]}\n" + LLAMA,
            "bad-type",
            "write True",
        ),
        ("recompute_config: {mp_comm_recompute: Flase}\n" + LLAMA, "bad-type", "write False"),
        ("recompute_config: {mp_comm_recompute: 'yes'}\n" + LLAMA, "bad-type", "write True"),
        ("recompute_config: {recompute: [1; 2]}\n" + LLAMA, "bad-type", "commas separate numbers; write 1, 2"),
        (layers("0 1") + LLAMA, "bad-type", "write [0, 1]"),
        (
            layers("(0, 1, 2)") + LLAMA,
            "bad-type",
            "a Python tuple is text in YAML, and between braces it ends at its comma",
        ),
        (layers("'[0, 1]'") + LLAMA, "bad-type", "quoted list is text in YAML; write [0, 1]"),
        ("swap_config:\n\tswap: True\n" + LLAMA, "yaml-syntax", "a tab indents this line"),
        ("swap_config:\n  swap: True\n\tdefault_prefetch: 2\n" + LLAMA, "yaml-syntax", "a tab indents this line"),
    ],
)
def test_a_slip_is_one_error_that_names_it(text: str, rule: str, hint: str) -> None:
    finding = only(text)
    assert finding.rule == rule
    assert hint in finding.hint


def test_a_number_where_entries_are_wanted_is_not_put_in_brackets() -> None:
    text = QWEN3.replace("{model_type", "{swap: True, layer_swap: 4, model_type")
    assert of(text, "bad-type").hint == "give a list of entries, each with `layers` and `backward_prefetch`"


def test_flash_attention_that_is_off_is_said_to_be_off() -> None:
    text = op(r"'attention\.flash_attention'") + LLAMA.replace("attention: True", "attention: False")
    assert "set `use_flash_attention: True`" in only(text).hint


def test_a_syntax_error_is_told_where_the_strange_character_is() -> None:
    finding = only("swap_config:\n  swap：True   # 注释，：\n  default_prefetch: 2\n" + LLAMA)
    assert (finding.origin.line, finding.origin.column) == (2, 7)


def test_a_bracket_that_is_not_closed_is_told_where_it_opens() -> None:
    finding = only("recompute_config:\n  recompute: [1, 2\n  mp_comm_recompute: True\n" + LLAMA)
    assert (finding.origin.line, finding.origin.column) == (2, 14)
    assert "not closed before line 3" in finding.hint


def test_a_comma_that_is_missing_is_told_where_it_is_missing() -> None:
    finding = only("recompute_config:\n  recompute: ['1' '2']\n" + LLAMA)
    assert finding.origin.line == 2
    assert "brackets" in finding.hint


def test_a_swap_that_is_misspelt_leaves_its_entries_to_be_checked() -> None:
    text = "swap_config: {swap: ture, layer_swap: [{layers: [99], backward_prefetch: 2}]}\n" + LLAMA
    assert {finding.rule for finding in found(text)} == {"bad-type", "layer-out-of-range"}


def test_an_enable_that_is_misspelt_leaves_its_entries_to_be_checked() -> None:
    findings = found("swap: {enable: ture, layer_swap: [{layers: ['9']}]}\n" + PYNATIVE)
    errors = {finding.rule for finding in findings if finding.severity is Severity.ERROR}
    assert errors == {"bad-type", "layer-out-of-range"}
    assert "pynative-form" not in {finding.rule for finding in findings}


def test_a_key_of_mcore_in_a_legacy_model_is_told_by_the_name_that_its_section_has() -> None:
    finding = only(LLAMA.replace("num_layers", "cpu_offloading: True, num_layers"))
    assert finding.rule == "section-misplaced"
    assert "to `swap_config:` at the top level, as `swap`" in finding.hint


def test_a_comment_is_no_cause_of_a_syntax_error() -> None:
    finding = only("swap_config:\n  swap: [True   # 注释，：\n  default_prefetch: 2\n" + LLAMA)
    assert finding.hint.startswith("this bracket is not closed")


def test_layers_that_are_not_there_are_told_in_the_plural() -> None:
    assert only(layers("[8, 9]") + LLAMA).message == "there are no layers 8, 9: the model has 4 layers"
    assert only(layers("[4]") + LLAMA).message == "there is no layer 4: the model has 4 layers"


def test_a_layer_named_twice_is_a_note() -> None:
    finding = only(layers("[0, 1, 0]") + LLAMA)
    assert (finding.rule, finding.severity, finding.message) == (
        "layer-named-twice",
        Severity.NOTE,
        "layer 0: named twice",
    )


def test_lookalikes_are_known() -> None:
    assert in_ascii("аttentіоn：［０，１］　“x”\u200b") == 'attention:[0,1] "x"'
    assert strangers("plain text") == ()
    assert strangers("层数") == ()  # a text may be Chinese
    assert told("a\u00a0b") == "it has U+00A0 (NO-BREAK SPACE), which is no space to YAML"
    assert (indented_by("\u3000key"), indented_by(" key"), indented_by("key\u3000")) == ("\u3000", "", "")


def test_a_mode_that_is_misspelt_leaves_the_lists_alone() -> None:
    assert [one.rule for one in found("recompute: {mode: Selekt, select_module: {mlp: ['0']}}\n" + PYNATIVE)] == [
        "bad-type"
    ]
