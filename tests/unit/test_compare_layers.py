"""What a PyNative run recomputed and moved, layer by layer, against what its YAML decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swapconf.config.yaml_document import parse
from swapconf.dryrun.effect.effect import Effect, Launch, Move
from swapconf.dryrun.pynative.compare_layers import compare_layers
from swapconf.study.study import Study, study_document
from swapconf.trace.marks import HOST, MOVED, moved_by
from swapconf.upstream.facts import Versions
from swapconf.upstream.scopes import Place

FULL = "recompute: {mode: full, full_recompute_layer: ['0-1']}\n"
SELECT = "recompute: {mode: select, select_module: {mlp: ['0-1']}}\n"
SWAP = "swap: {enable: True, layer_swap: [{layers: ['0-1']}]}\n"


def studied(section: str) -> Study:
    text = f"{section}training: {{}}\nmodel: {{num_hidden_layers: 4}}\n"
    return study_document(parse(text, "t.yaml"), Versions(mindspore="2.10.0", mindformers="2.0.0"), {})


def effect(again: tuple[int, ...] = (), moved: tuple[int, ...] = ()) -> Effect:
    return Effect(
        layers=frozenset("0123"),
        moves=tuple(Move(place=Place(str(layer), ""), primitive="", size_bytes=1, host_bytes=1) for layer in moved),
        host_peak_bytes=0,
        recomputed=tuple(Launch(Place(str(layer), ""), "MatMulExt") for layer in again),
    )


@pytest.mark.parametrize(
    ("section", "seen"),
    [
        ("", effect()),
        (FULL, effect(again=(1, 0))),
        (SELECT, effect(again=(1, 0))),
        (SELECT, effect()),  # the module may hold nothing that runs again
        (SWAP, effect(moved=(0, 1))),
    ],
)
def test_what_was_decided_and_happened_is_no_finding(section: str, seen: Effect) -> None:
    assert compare_layers(studied(section), seen) == []


@pytest.mark.parametrize(
    ("section", "seen", "rule", "layers"),
    [
        (FULL, effect(again=(1,)), "recompute-not-in-effect", "layers 0:"),
        (FULL, effect(again=(3, 1, 0)), "recompute-not-decided", "layers 3:"),
        (SWAP, effect(moved=(0,)), "decision-without-effect", "layers 1:"),
        (SWAP, effect(moved=(0, 1, 2)), "effect-without-decision", "layers 2:"),
        ("", effect(again=(2,)), "recompute-not-decided", "layers 2:"),
    ],
)
def test_a_difference_is_told_by_layer(section: str, seen: Effect, rule: str, layers: str) -> None:
    (found,) = compare_layers(studied(section), seen)
    assert found.rule == rule
    assert found.message.startswith(layers)


def test_what_was_moved_stands_beside_the_marks(tmp_path: Path) -> None:
    file = tmp_path / "marks.json"
    file.write_text(json.dumps({MOVED: [[0, 512], [1, 1024]], HOST: 1536}))
    assert moved_by(file) == (((0, 512), (1, 1024)), 1536)
    file.write_text(json.dumps({MOVED: [[0, "512"], [1]], HOST: "much"}))
    assert moved_by(file) == ((), 0)
    file.write_text("{}")
    assert moved_by(file) == ((), 0)
