from __future__ import annotations

import pytest

from swapconf.config.config import Config, DefaultSwap, EveryLayer, LayerCounts, LayerIndices, ListedSwap, SwapOff
from swapconf.config.yaml_config import from_document
from swapconf.config.yaml_document import parse
from swapconf.words.findings import Finding


def read(text: str) -> tuple[Config, tuple[Finding, ...]]:
    return from_document(parse(text, "f.yaml"))


def rules(text: str) -> list[tuple[str, str]]:
    return [(finding.rule, finding.origin.path) for finding in read(text)[1]]


def swap(text: str) -> object:
    return read(f"swap_config: {text}\n")[0].swap


def test_off_default_and_listed() -> None:
    assert swap("{}") == SwapOff()
    assert swap("") == SwapOff()
    assert swap("{swap: False, layer_swap: [{layers: True, backward_prefetch: 1}]}") == SwapOff()
    default = swap("{swap: True, default_prefetch: 7}")
    assert isinstance(default, DefaultSwap)
    assert default.prefetch == 7
    assert isinstance(swap("{swap: True, layer_swap: ~, op_swap: ~}"), DefaultSwap)
    assert isinstance(swap("{swap: True, layer_swap: []}"), ListedSwap)


def test_default_prefetch_defaults_to_one() -> None:
    default = swap("{swap: True}")
    assert isinstance(default, DefaultSwap)
    assert default.prefetch == 1


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("True", EveryLayer()),
        ("False", LayerIndices(())),
        ("[0, 3]", LayerIndices((0, 3))),
        ("[[0, 1], [3]]", LayerIndices((0, 1, 3))),
        ("[]", LayerIndices(())),
    ],
)
def test_layers(layers: str, expected: object) -> None:
    listed = swap(f"{{swap: True, layer_swap: {{backward_prefetch: 2, layers: {layers}}}}}")
    assert isinstance(listed, ListedSwap)
    assert [entry.layers for entry in listed.layer_swap] == [expected]


def test_a_list_of_names_is_one_entry_for_each() -> None:
    listed = swap("{swap: True, op_swap: [{op_name: [a, 'b\\.c'], backward_prefetch: 2, layers: True}]}")
    assert isinstance(listed, ListedSwap)
    assert [(entry.pattern, entry.origin.path) for entry in listed.op_swap] == [
        ("a", "swap_config.op_swap[0].op_name[0]"),
        (r"b\.c", "swap_config.op_swap[0].op_name[1]"),
    ]


def test_recompute_lists_are_counts_with_swap_off_and_indices_with_swap_on() -> None:
    off = read("recompute_config: {recompute: [2, True], select_recompute: {a: [[1, 0], [2, 1]]}}")[0].recompute
    assert off.full is not None
    assert off.full.layers == LayerCounts(counts=((2, None),), per_interleave=False)
    assert off.select[0].layers == LayerCounts(counts=((1, 0), (2, 1)), per_interleave=True)
    on = read("swap_config: {swap: True}\nrecompute_config: {recompute: [2, 3]}")[0].recompute
    assert on.full is not None
    assert on.full.layers == LayerIndices((2, 3))


def test_builtin_patterns_depend_on_the_kind_of_model() -> None:
    legacy = read("recompute_config: {select_recompute: True}")[0].recompute.select
    mcore = read("use_legacy: False\nrecompute_config: {select_recompute: True}")[0].recompute.select
    assert [entry.pattern for entry in legacy] == [r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"]
    assert r"mlp\.mul" in [entry.pattern for entry in mcore]


def test_one_bad_entry_does_not_hide_the_others() -> None:
    config, findings = read("""
swap_config:
  swap: True
  layer_swap:
    - {backward_prefetch: 0, layers: [0]}
    - {backward_prefetch: 5, layers: [1]}
    - 7
""")
    assert isinstance(config.swap, ListedSwap)
    assert [entry.prefetch for entry in config.swap.layer_swap] == [5]
    assert [(f.rule, f.origin.line, f.origin.column) for f in findings] == [("bad-value", 5, 27), ("bad-type", 7, 7)]


@pytest.mark.parametrize(("value", "trap"), [("010", "octal"), ("1:30", "base 60"), ("yes", "True"), ("1e3", "text")])
def test_yaml_traps_are_named(value: str, trap: str) -> None:
    _, findings = read(f"swap_config: {{swap: True, default_prefetch: {value}}}")
    assert [f for f in findings if f"`{value}`" in f.message + f.hint and trap in f.message + f.hint]


def test_quoted_numbers_are_not_traps() -> None:
    _, findings = read("swap_config: {swap: True, op_swap: [{op_name: '010', backward_prefetch: 1, layers: True}]}")
    assert findings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("swap_config: {swap: True, opswap: 1}", [("unknown-key", "swap_config.opswap")]),
        ("swap_config: 3", [("bad-type", "swap_config")]),
        ("recompute_config: {recompute: all}", [("bad-type", "recompute_config.recompute")]),
        ("recompute_config: {mp_comm_recompute: 1}", [("bad-type", "recompute_config.mp_comm_recompute")]),
        ("recompute_config: {select_recompute: [a, 1]}", [("recompute-form", "recompute_config.select_recompute[1]")]),
        ("swap_config: {swap: True, default_prefetch: 2.0}", [("bad-type", "swap_config.default_prefetch")]),
        (
            "swap_config: {swap: True, op_swap: {op_name: [], backward_prefetch: 1, layers: True}}",
            [("bad-value", "swap_config.op_swap.op_name")],
        ),
        ("model: {model_config: {num_layers: -1}}", [("bad-value", "model.model_config.num_layers")]),
        ("model: {model_config: {offset: [a]}}", [("bad-value", "model.model_config.offset")]),
        ("parallel_config: {pipeline_stage: 0}", [("bad-value", "parallel_config.pipeline_stage")]),
    ],
)
def test_structural_findings(text: str, expected: list[tuple[str, str]]) -> None:
    assert rules(text) == expected


MCORE = "use_legacy: False\nmodel: {model_config: {%s}}\n%s"


def test_mcore_spelling() -> None:
    config, findings = read(
        MCORE
        % ("cpu_offloading: True, cpu_offloading_num_layers: [{backward_prefetch: 3, layers: [1]}], recompute: [0]", "")
    )
    assert findings == ()
    assert isinstance(config.swap, ListedSwap)
    assert config.swap.layer_swap[0].origin.path == "model.model_config.cpu_offloading_num_layers[0]"
    assert config.recompute.full is not None
    assert config.recompute.full.layers == LayerIndices((0,))


def test_mcore_takes_swap_config_too_but_not_both() -> None:
    assert isinstance(read(MCORE % ("num_layers: 1", "swap_config: {swap: True}"))[0].swap, DefaultSwap)
    assert rules(MCORE % ("swap: True", "swap_config: {swap: True}")) == [
        ("section-given-twice", "model.model_config.swap")
    ]


def test_legacy_models_do_not_read_model_config() -> None:
    assert rules("model: {model_config: {op_swap: []}}") == [("section-misplaced", "model.model_config.op_swap")]
