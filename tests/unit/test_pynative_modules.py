"""What a PyNative config decides layer by layer: with and without knowing what the layers of its model have."""

from __future__ import annotations

import pytest

from swapconf.config.config import Config
from swapconf.config.yaml_document import parse
from swapconf.decide import budget, module_lines
from swapconf.decide.modules import by_layer, decide_parallel
from swapconf.models.pynative_modules import LayerModules
from swapconf.study.study import study_document
from swapconf.upstream.facts import Versions

LAYER = LayerModules(
    cells=frozenset(
        {
            "input_layernorm",
            "self_attention",
            "self_attention.core_attention",
            "self_attention.linear_qkv",
            "mlp",
            "mlp.linear_fc1",
            "mlp.linear_fc2",
        }
    ),
    functions=frozenset({"mlp.linear_fc1.cast", "self_attention.core_attention.cast"}),
)


def config(sections: str, batches: int = 8) -> Config:
    training = f"training: {{local_batch_size: 1, global_batch_size: {batches}}}"
    text = f"{sections}\n{training}\nmodel: {{num_hidden_layers: 4}}\n"
    return study_document(parse(text, "t.yaml"), Versions(mindspore="2.10.0", mindformers="2.0.0"), {}).config


def lines(sections: str, *, known: bool = True) -> list[str]:
    found = by_layer(config(sections), lambda _layer: LAYER if known else None)
    return [line for layer, here in found for line in module_lines.lines(layer, here)]


def test_lines_are_worded_as_mindformers_words_them() -> None:
    asked = """
recompute: {mode: select, full_recompute_layer: ['0'], select_module: {mlp: ['1'], self_attention: ['1']}}
recompute_comm: {enable: True, select_module: {'mlp\\.linear_fc1\\.cast': ['2']}}
swap: {enable: True, layer_swap: [{layers: ['2']}]}
"""
    assert lines(asked) == [
        "Set full recompute at layer 0",
        "Set select recompute at layer 1: mlp, self_attention",
        "Set select comm recompute at layer 2: mlp.linear_fc1.cast",
        "Set layer swap at layer 2",
    ]


def test_a_pattern_is_told_by_the_paths_that_it_matches() -> None:
    asked = "swap: {enable: True, op_swap: [{op_name: '.*linear_fc.', layers: ['0']}]}"
    assert lines(asked) == ["Set select swap at layer 0: mlp.linear_fc1, mlp.linear_fc2"]
    assert lines(asked, known=False) == ["Set select swap at layer 0: .*linear_fc."]


def test_of_modules_inside_one_another_the_outer_one_is_named() -> None:
    asked = "recompute: {mode: select, select_module: {'.*linear_fc1': ['0-1'], mlp: ['0']}}"
    assert lines(asked) == ["Set select recompute at layer 0: mlp", "Set select recompute at layer 1: mlp.linear_fc1"]


def test_a_swap_gives_way_to_recompute_in_around_and_at_its_module() -> None:
    asked = """
recompute: {mode: select, full_recompute_layer: ['1'], select_module: {'mlp\\.linear_fc1': ['0', '2']}}
swap:
  enable: True
  layer_swap: [{layers: ['1-2']}]
  op_swap:
    - {op_name: mlp, layers: ['0']}
    - {op_name: 'mlp\\.linear_fc1\\.cast', layers: ['0']}
    - {op_name: self_attention, layers: ['0']}
"""
    assert lines(asked) == [
        "Set select recompute at layer 0: mlp.linear_fc1",
        "Set select swap at layer 0: self_attention",
        "Skip op_swap at layer 0: mlp, recomputed there: mlp.linear_fc1 [pynative-overlap]",
        "Skip op_swap at layer 0: mlp.linear_fc1.cast, recomputed there: mlp.linear_fc1 [pynative-overlap]",
        "Set full recompute at layer 1",
        "Skip layer swap at layer 1: recomputed there: the whole layer [pynative-overlap]",
        "Set select recompute at layer 2: mlp.linear_fc1",
        "Skip layer swap at layer 2: recomputed there: mlp.linear_fc1 [pynative-overlap]",
    ]


def test_what_a_pattern_matches_beside_a_recomputed_module_is_swapped() -> None:
    asked = """
recompute: {mode: select, select_module: {'mlp\\.linear_fc2': ['0']}}
swap: {enable: True, op_swap: [{op_name: 'mlp.*', layers: ['0']}]}
"""
    assert lines(asked) == [
        "Set select recompute at layer 0: mlp.linear_fc2",
        "Set select swap at layer 0: mlp.linear_fc1",
        "Skip op_swap at layer 0: mlp, recomputed there: mlp.linear_fc2 [pynative-overlap]",
    ]


def test_modules_are_swapped_by_themselves_where_their_layer_is_not() -> None:
    asked = """
recompute: {mode: select, select_module: {mlp: ['0']}}
swap: {enable: True, layer_swap: [{layers: ['0-1']}], op_swap: [{op_name: self_attention, layers: ['0-1']}]}
"""
    assert lines(asked) == [
        "Set select recompute at layer 0: mlp",
        "Set select swap at layer 0: self_attention",
        "Skip layer swap at layer 0: recomputed there: mlp [pynative-overlap]",
        "Set layer swap at layer 1",
    ]


def test_what_matches_nothing_is_skipped_where_the_layer_is_known() -> None:
    asked = "swap: {enable: True, op_swap: [{op_name: '.*feed_forward', layers: ['0']}]}"
    assert lines(asked) == [
        "Skip op_swap at layer 0: .*feed_forward, matches nothing in this layer [pynative-no-match]"
    ]


def test_communication_is_recomputed_operator_by_operator() -> None:
    asked = "recompute_comm: {enable: True, select_module: {mlp: ['0'], '.*core_attention\\.cast': ['0']}}"
    assert lines(asked) == [
        "Set select comm recompute at layer 0: self_attention.core_attention.cast",
        "Skip select comm recompute at layer 0: mlp, a module; communication is recomputed operator by operator "
        "[pynative-no-match]",
    ]


def test_on_one_card_all_of_it_is_skipped() -> None:
    asked = config("recompute: {mode: full, full_recompute_layer: ['0']}", batches=1)
    assert [line for layer, here in by_layer(asked) for line in module_lines.lines(layer, here)] == [
        "Skip full recompute at layer 0: mindformers applies it on several cards only [pynative-one-card]"
    ]


def test_the_table_names_entries_in_the_order_of_the_file_and_layers_that_are_alike_once() -> None:
    asked = """
recompute: {mode: select, select_module: {self_attention: ['2-3'], mlp: ['0-1']}}
swap: {enable: True, op_swap: [{op_name: 'mlp\\.linear_fc1', layers: ['1-2']}]}
"""
    rows = [(one.module, one.layers, one.effect) for one in decide_parallel(config(asked))]
    assert rows == [
        ("self_attention", (2, 3), "recompute"),
        ("mlp", (0, 1), "recompute"),
        ("mlp\\.linear_fc1", (1,), "nothing"),
        ("mlp\\.linear_fc1", (2,), "swap"),
    ]


def test_a_pattern_that_takes_too_long_is_not_said_to_match_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(*_asked: object) -> bool:
        raise budget.Spent("too long")

    monkeypatch.setattr(budget.Budget, "fits", spent)
    asked = "swap: {enable: True, op_swap: [{op_name: '(m|l|p)+', layers: ['0']}]}"
    assert lines(asked) == ["Set select swap at layer 0: (m|l|p)+"]
