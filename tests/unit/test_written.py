"""What was planned, written into YAMLs of every form that people give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swapconf.config.config import (
    EveryLayer,
    FullRecompute,
    LayerCounts,
    LayerIndices,
    LayerSwap,
    ListedSwap,
    OpSwap,
    RecomputeConfig,
    SelectRecompute,
    SwapOff,
)
from swapconf.config.rewriting import CannotRewrite, asked
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.plan.written import write
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin

NOWHERE = Origin(file="test.yaml")
PLACES: dict[str, Any] = dict.fromkeys(("origin", "layers_origin", "prefetch_origin"), NOWHERE)
MODEL = "model: {model_config: {type: LlamaConfig, num_layers: 4}, arch: {type: LlamaForCausalLM}}\n"
MCORE = "use_legacy: False\nmodel:\n  model_config:\n    model_type: qwen3\n    num_hidden_layers: 4\n"

SWAPPED = ListedSwap(
    layer_swap=(LayerSwap(layers=EveryLayer(), prefetch=50, **PLACES),),
    op_swap=(OpSwap(pattern="attention", layers=LayerIndices((0, 2)), prefetch=10, **PLACES),),
    given_entries=2,
)
NOTHING = RecomputeConfig()
FIRST = RecomputeConfig(full=FullRecompute(layers=LayerCounts(((2,),), False), origin=NOWHERE))
SELECTED = RecomputeConfig(
    full=FullRecompute(layers=LayerIndices((1,)), origin=NOWHERE),
    select=(SelectRecompute(pattern=r"feed_forward\.w1", layers=LayerIndices((3,)), origin=NOWHERE),),
)
SECTION = """\
swap_config:
  swap: True
  layer_swap:
    - backward_prefetch: 50
      layers: True
  op_swap:
    - op_name: attention
      backward_prefetch: 10
      layers: [0, 2]
"""


def written(text: str, swap: ListedSwap | SwapOff, recompute: RecomputeConfig = NOTHING, comment: str = "x") -> str:
    document = parse(text, "test.yaml")
    made = replace(from_document(document)[0], swap=swap, recompute=recompute)
    after = write(text, document, made, comment)
    again = parse(after, "test.yaml")
    assert asked(from_document(again)[0]) == asked(made)
    assert write(after, again, made, comment) == after
    return after


# --- where ----------------------------------------------------------------------------------------------------------


def test_a_section_that_is_missing_comes_last() -> None:
    assert written(MODEL, SWAPPED) == f"{MODEL}\n# planned by swapconf: x\n{SECTION}"


def test_a_section_that_is_missing_comes_behind_the_other_one() -> None:
    before = "recompute_config:\n  recompute: False\n\n# the model\n" + MODEL
    after = written(before, SWAPPED)
    assert after == before.replace("\n\n# the", f"\n\n# planned by swapconf: x\n{SECTION}\n# the")


def test_what_asks_for_nothing_and_is_not_there_is_not_written() -> None:
    assert written(MODEL, SwapOff()) == MODEL


def test_an_mcore_model_gets_swap_where_it_reads_it() -> None:
    after = written(MCORE + "recompute_config:\n  recompute: False\n", SWAPPED)
    inside = "".join(
        f"    {line}\n" for line in ["# planned by swapconf: x", *SECTION.replace("\n  ", "\n").split("\n")[1:-1]]
    )
    assert after == f"{MCORE}{inside}recompute_config:\n  recompute: False\n"


def test_an_mcore_model_keeps_its_section_at_the_top() -> None:
    after = written(MCORE + "swap_config:\n  swap: False\n", SWAPPED)
    assert after == f"{MCORE}# planned by swapconf: x\n{SECTION}"


def test_keys_that_mcore_gives_another_name_keep_it() -> None:
    before = (
        MCORE + "    cpu_offloading: True  # on\n    cpu_offloading_num_layers: [{layers: [1], backward_prefetch: 5}]\n"
    )
    after = written(before, SWAPPED)
    assert "    cpu_offloading: True  # on\n    cpu_offloading_num_layers:\n      - backward_prefetch: 50\n" in after
    assert "layer_swap" not in after


def test_keys_for_recompute_stay_in_model_config() -> None:
    after = written(MCORE + "    recompute: [3]\n", SWAPPED, SELECTED)
    assert "    recompute: [1]\n    select_recompute:\n      feed_forward\\.w1: [3]\n" in after
    assert "recompute_config" not in after


# --- what stays -----------------------------------------------------------------------------------------------------


def test_only_what_changes_is_written_anew() -> None:
    before = (
        "swap_config:\n  swap: yes   # on\n  layer_swap: [ {backward_prefetch: 50, layers: yes} ]\n"
        "  op_swap: {op_name: [attention], layers: [0,2], backward_prefetch: 11}\n" + MODEL
    )
    after = written(before, SWAPPED)
    assert after.startswith(
        "# planned by swapconf: x\nswap_config:\n  swap: yes   # on\n"
        "  layer_swap: [ {backward_prefetch: 50, layers: yes} ]\n  op_swap:\n    - op_name: attention\n"
    )


def test_a_comment_in_a_column_stays_in_it() -> None:
    before = "recompute_config:\n  recompute: False         # all\n  select_recompute: False  # some\n" + MODEL
    after = written(before, ListedSwap(), SELECTED)
    assert "  recompute: [1]           # all\n  select_recompute:        # some\n    feed_forward" in after
    assert before in written(after, SwapOff()).replace("\n\nswap_config:\n  swap: False", "")


def test_comments_of_what_goes_stay() -> None:
    before = (
        "# about swap\nswap_config: # here\n  # above\n  swap: True  # on\n  default_prefetch: 7  # seven\n"
        "  layer_swap: # lists\n    # inside\n    - backward_prefetch: 5 # five\n      layers: [1]\n    # behind\n"
        "# about the model\n" + MODEL
    )
    after = written(before, SwapOff())
    assert after == (
        "# about swap\nswap_config: # here\n  # above\n  swap: False  # on\n  default_prefetch: 7  # seven\n"
        "  # lists\n  # inside\n  # five\n    # behind\n# about the model\n" + MODEL
    )


def test_a_plan_takes_the_place_of_the_comment_of_an_earlier_one() -> None:
    first = written("# mine\nswap_config:\n  swap: False\n" + MODEL, SWAPPED, comment="for 54 GB\non a card")
    assert first.startswith("# mine\n# planned by swapconf: for 54 GB on a card\nswap_config:\n")
    second = written(first, SwapOff(), FIRST, comment="planned by swapconf for 60 GB")
    assert second.count("planned by") == 1
    assert second.startswith(
        "# mine\nswap_config:\n  swap: False\n\n# planned by swapconf for 60 GB\nrecompute_config:\n"
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ends_of_lines_and_of_the_file_stay(end: str) -> None:
    before = f"swap_config:{end}  swap:\tFalse \t# off{end}{MODEL.strip()}{end}last: 1"
    after = written(before, SWAPPED, SELECTED)
    assert after.startswith(
        f"# planned by swapconf: x{end}swap_config:{end}  swap:\tTrue \t# off{end}  layer_swap:{end}"
    )
    assert f"{end}last: 1{end}" not in after
    assert after.replace("\r\n", "\n").count("\r") == 0
    assert (after.count("\n") == after.count("\r\n")) == (end == "\r\n")


# --- forms ----------------------------------------------------------------------------------------------------------


def test_keys_in_quotes_stay_in_quotes() -> None:
    after = written("'swap_config':\n  \"swap\": False\n" + MODEL, SWAPPED)
    assert after.startswith("# planned by swapconf: x\n'swap_config':\n  \"swap\": True\n  layer_swap:\n")


@pytest.mark.parametrize("empty", ["", " null", " ~  # nothing yet"])
def test_an_empty_section_is_filled(empty: str) -> None:
    after = written(f"swap_config:{empty}\n{MODEL}", SWAPPED)
    head = "swap_config:" + ("    # nothing yet" if "#" in empty else "")
    assert after == "# planned by swapconf: x\n" + SECTION.replace("swap_config:", head, 1) + MODEL


def test_a_section_in_braces_stays_in_braces() -> None:
    before = "swap_config: {swap: True, default_prefetch: 5, layer_swap: [{layers: [1], backward_prefetch: 5}]} # all\n"
    after = written(before + MODEL, SWAPPED)
    assert after == (
        "# planned by swapconf: x\nswap_config: {swap: True, layer_swap: [{backward_prefetch: 50, layers: True}], "
        "op_swap: [{op_name: attention, backward_prefetch: 10, layers: [0, 2]}]} # all\n" + MODEL
    )
    assert written(before + MODEL, SwapOff()) == "swap_config: {swap: False, default_prefetch: 5} # all\n" + MODEL
    assert written("swap_config: {}\n" + MODEL, SWAPPED).startswith(
        "# planned by swapconf: x\nswap_config: {swap: True, "
    )


def test_a_whole_file_in_braces_stays_in_braces() -> None:
    before = "{swap_config: {swap: False}, model: {model_config: {type: LlamaConfig, num_layers: 4}}}\n"
    after = written(before, SWAPPED, SELECTED)
    assert after.startswith("# planned by swapconf: x\n{swap_config: {swap: True, layer_swap: [")
    assert after.endswith(", recompute_config: {recompute: [1], select_recompute: {feed_forward\\.w1: [3]}}}\n")


def test_an_anchor_in_a_section_that_nothing_else_uses_is_no_obstacle() -> None:
    after = written("swap_config: &mine\n  swap: False\n" + MODEL, SWAPPED)
    assert after.startswith("# planned by swapconf: x\nswap_config: &mine\n  swap: True\n")


def test_what_a_merge_key_brings_is_overridden_and_cannot_be_taken_away() -> None:
    base = "base: &base\n  swap: False\n  op_swap: {op_name: ffn_norm, layers: [1], backward_prefetch: 5}\n"
    after = written(base + "swap_config:\n  <<: *base\n" + MODEL, SWAPPED)
    assert after == f"{base}# planned by swapconf: x\nswap_config:\n  <<: *base\n{SECTION.partition(chr(10))[2]}{MODEL}"
    with pytest.raises(CannotRewrite, match="would not mean"):
        written(base + "swap_config:\n  <<: *base\n" + MODEL, replace(SWAPPED, op_swap=(), given_entries=1))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("base: &base {swap: False}\nswap_config: *base\n", "`swap_config` is an alias of line 1"),
        ("swap_config: &s\n  swap: False\nelse: *s\n", "another section"),
        ("swap_config:\n  swap: &off False\nelse: *off\n", "another section"),
        ("swap_config: {swap: True, # on\n  default_prefetch: 5, # five\n  x: 1}\n", "a comment stands inside"),
        ("swap_config:\n  ? swap\n  : False\n", "stands inside another line"),
        ("swap_config: 5\n", "is no mapping"),
        ("swap_config:\n  swap: True\n  swap: False\n", "stands twice"),
        ("swap: {enable: True}\ntraining: {}\n", "would not mean"),  # its prefetches and names are those of graph mode
    ],
)
def test_what_cannot_be_written_without_touching_more_is_refused(text: str, told: str) -> None:
    with pytest.raises(CannotRewrite, match=told) as refused:
        written(text + MODEL, SWAPPED)
    assert refused.value.hint


def test_a_section_beside_keys_that_a_legacy_model_does_not_read_is_refused() -> None:
    with pytest.raises(CannotRewrite, match="`swap` is set here and there is a `swap_config`"):
        written("model: {model_config: {type: LlamaConfig, num_layers: 4, swap: False}}\n", SWAPPED)


def test_a_document_that_a_command_line_has_changed_is_refused() -> None:
    document = replace(parse(MODEL, "test.yaml"), is_changed=True)
    with pytest.raises(CannotRewrite, match="command line"):
        write(MODEL, document, replace(from_document(document)[0], swap=SWAPPED), "x")


# --- what check says ------------------------------------------------------------------------------------------------


def test_a_short_list_of_layers_says_that_it_is_no_list_of_counts() -> None:
    model = "parallel_config: {pipeline_stage: 2}\nuse_parallel: True\n" + MODEL
    listed = RecomputeConfig(full=FullRecompute(layers=LayerIndices((1, 2)), origin=NOWHERE))
    swap = ListedSwap(op_swap=(replace(SWAPPED.op_swap[0], layers=LayerIndices((0, 3))),), given_entries=1)
    after = written(model + "recompute_config:\n  # mine\n  recompute: False\n", swap, listed)
    doubt = "  # swapconf: ignore[R3-list-meaning] planned by swapconf: these are layers\n"
    assert f"recompute_config:\n  # mine\n{doubt}  recompute: [1, 2]\n" in after
    assert rules(after) == []
    without = written(
        after, SwapOff(), replace(FIRST, full=FullRecompute(layers=LayerCounts(((2, 0),), False), origin=NOWHERE))
    )
    assert doubt not in without
    assert rules(without) == []


@pytest.mark.parametrize("on_command_line", [False, True])
def test_it_says_so_in_an_mcore_model_too_and_for_stages_of_the_command_line(on_command_line: bool) -> None:
    """There it would be an error, so that a plan could not be confirmed."""
    stages = "parallel_config: {pipeline_stage: 2}\n"
    text = ("" if on_command_line else stages) + "use_parallel: True\n" + MCORE
    document = parse(text, "test.yaml")
    config, _ = from_document(document)
    of_run, _ = from_document(parse(stages + text, "test.yaml")) if on_command_line else (config, ())
    listed = RecomputeConfig(full=FullRecompute(layers=LayerIndices((1, 2)), origin=NOWHERE))
    swap = ListedSwap(op_swap=(replace(SWAPPED.op_swap[0], layers=LayerIndices((0, 3))),), given_entries=1)
    after = write(text, document, replace(of_run, swap=swap, recompute=listed), "x")
    assert "# swapconf: ignore[R3-list-meaning] planned by swapconf: these are layers\n" in after
    assert "R3-list-meaning" not in rules(stages + after if on_command_line else after)


def test_an_empty_list_of_swaps_beside_layers_to_recompute_is_no_mistake() -> None:
    assert rules(written(MODEL, ListedSwap(), SELECTED)) == ["R3-list-meaning", "lazy-inline-off"]


def rules(text: str) -> list[str]:
    return sorted(
        found.rule for found in study_document(parse(text, "t.yaml"), Versions(mindspore="2.9.0"), {}).findings
    )
