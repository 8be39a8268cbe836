"""Decision against effect in real dry runs, where they differ: what the log says is not always what moves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from swapconf.decide.strategy import Strategy
from swapconf.dryrun.effect.compare_copies import compare
from swapconf.dryrun.effect.effect import Effect, observed
from swapconf.trace import launch_graph, trace_folder
from swapconf.trace.launch_order import reproduces
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Origin
from tests.helpers import ROOT, document_of, strategy_of

pytestmark = [pytest.mark.mindspore, pytest.mark.thorough]

LLAMA = ROOT / "configs/llama2_7b/example1_default_swap.yaml"
QWEN3 = ROOT / "configs/small/qwen3_default_swap.yaml"
DEEPSEEK = ROOT / "configs/small/deepseek_v3_default_swap.yaml"
TINY = ["hidden_size=64", "num_heads=8", "num_layers=2", "seq_length=64", "vocab_size=128", "multiple_of=16"]


def swap(*names: str, **recompute: Any) -> list[str]:
    section = {"swap": True, "op_swap": [{"op_name": name, "backward_prefetch": 1, "layers": True} for name in names]}
    return [
        f"swap_config={json.dumps(section)}",
        *(f"recompute_config.{key}={json.dumps(value)}" for key, value in recompute.items()),
    ]


CASES = {
    "lazy_inline_off": [*swap("feed_forward"), "runner_config.gradient_accumulation_steps=1"],
    "memory_planned": [*swap("feed_forward"), 'context.memory_optimize_level="O1"'],
    "not_read": swap("attention", r"feed_forward\.mul"),
    "consumer_recomputed": swap("ffn_norm", select_recompute={"feed_forward": [1]}),
    "recomputed_without_lazy_inline": [
        "swap_config=",
        "recompute_config.recompute=[1]",
        "recompute_config.select_recompute=" + json.dumps({r"attention\.flash_attention": True}),
        "runner_config.gradient_accumulation_steps=1",
    ],
}
SIX_EXPERTS = ["swap_config=", "model.model_config.n_routed_experts=6"]  # of 128 tokens, on two ranks
MIXED = [
    f"swap_config={json.dumps({'swap': True, 'layer_swap': [{'backward_prefetch': 5, 'layers': [0]}]})}",
    "recompute_config.recompute=[1]",
]  # with swap on these are layers, not counts
PLAIN = ("lazy_inline_off", "memory_planned")  # swapconf itself keeps lazy inline on, and refuses O1


class Runs:
    """The reports and traces of the cases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports: dict[str, dict[str, Any]] = {}
        llama = {
            name: (LLAMA, [*(f"model.model_config.{item}" for item in TINY), *changes])
            for name, changes in CASES.items()
        }
        mcore = {"mcore_mixed": (QWEN3, MIXED), "six_experts": (DEEPSEEK, SIX_EXPERTS)}
        for name, (config, changes) in {**llama, **mcore}.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(document_of(config, *changes).root.plain()))

    def run(self, names: list[str], *words: str) -> None:
        command = [
            sys.executable,
            "-m",
            "swapconf",
            "dryrun",
            *(str(self.folder / f"{name}.yaml") for name in names),
            "--format",
            "json",
            "--keep",
            str(self.folder / "keep"),
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.stdout, done.stderr
        self.reports.update(zip(names, json.loads(done.stdout), strict=True))

    def findings(self, name: str) -> list[tuple[str, str]]:
        return [(found["rule"], found["message"]) for found in self.reports[name]["findings"]]

    def lines(self, name: str) -> list[str]:
        return [line for line in self.reports[name]["strategy_lines"] if "swap" in line]

    def effect(self, name: str) -> Effect:
        return observed(trace_folder.read(self.folder / "keep" / name / "rank_0", 0), 2)

    def strategy(self, name: str, versions: Versions) -> Strategy:
        return strategy_of(self.folder / f"{name}.yaml", versions=versions)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    made = Runs(tmp_path_factory.mktemp("effect"))
    made.run(list(PLAIN), "--plain")
    made.run([name for name in CASES if name not in PLAIN])
    made.run(["mcore_mixed", "six_experts"], "--ranks", "0")
    return made


def test_every_run_ends_well(runs: Runs) -> None:
    assert {name: report["outcome"] for name, report in runs.reports.items()} == dict.fromkeys(
        [*CASES, "mcore_mixed", "six_experts"], "completed"
    )


def test_the_order_of_kernels_is_found_again_on_the_graph_that_a_run_without_swap_and_recompute_keeps(
    runs: Runs,
) -> None:
    keep = runs.folder / "keep"
    assert [path.parts[-3] for path in keep.glob(f"*/rank_0/{launch_graph.FILE}")] == ["six_experts"]
    trace = trace_folder.read(keep / "six_experts" / "rank_0", 0)
    assert trace.launch_graph is not None
    assert trace.num_steps == 2
    assert reproduces(trace.launch_graph, trace.kernels)
    assert not (keep / "six_experts" / "rank_0" / "graphs").exists()


def test_without_lazy_inline_casts_of_weights_and_selected_flash_attention_are_left(runs: Runs) -> None:
    """`check` says the latter; the dry run does not find that anything else is not as decided."""
    assert runs.findings("recomputed_without_lazy_inline") == []
    again = runs.effect("recomputed_without_lazy_inline").recomputed
    assert again is not None
    for primitive in ("MatMul", "FlashAttentionScore"):  # selected in both, and within a recomputed layer in the first
        assert {launch.place.layer for launch in again if launch.primitive == primitive} == {"0"}


def test_without_lazy_inline_the_log_says_swap_and_nothing_moves(runs: Runs) -> None:
    assert len(runs.lines("lazy_inline_off")) == 2
    assert runs.reports["lazy_inline_off"]["moved"] == []
    ((rule, message),) = runs.findings("lazy_inline_off")
    assert rule == "decision-without-effect"
    assert "feed_forward" in message
    assert "layers 0-1" in message


def test_planned_memory_is_copied_but_not_freed(runs: Runs) -> None:
    assert sum(move["tensors"] for move in runs.reports["memory_planned"]["moved"]) > 0
    assert any(
        rule == "decision-without-effect" and "not freed" in message
        for rule, message in runs.findings("memory_planned")
    )


def test_an_operator_that_backward_does_not_read_moves_nothing(runs: Runs) -> None:
    moved = {place.cell for place, _ in runs.effect("not_read").by_operator}
    assert any(cell.startswith("attention") for cell in moved)
    assert "feed_forward" not in moved
    assert any(
        rule == "decision-without-effect" and "feed_forward" in message for rule, message in runs.findings("not_read")
    )


def test_a_swap_before_a_recomputed_reader_takes_effect_on_2_9_0(runs: Runs) -> None:
    effect = runs.effect("consumer_recomputed")
    assert {place.layer for place, _ in effect.by_operator if place.cell == "ffn_norm"} == {"0", "1"}
    assert effect.by_layer["1"].num_tensors > effect.by_layer["0"].num_tensors
    assert not [rule for rule, _ in runs.findings("consumer_recomputed") if rule.endswith("-effect")]


def test_one_cell_is_recomputed_in_one_layer(runs: Runs) -> None:
    again = {
        (launch.place.layer, launch.place.cell.partition(".")[0])
        for launch in runs.effect("consumer_recomputed").recomputed or ()
    }
    assert ("1", "feed_forward") in again
    assert ("0", "feed_forward") not in again
    assert not [rule for rule, _ in runs.findings("consumer_recomputed") if rule.startswith("recompute-")]


def test_the_report_tells_kernels_by_layer(runs: Runs) -> None:
    effect = runs.effect("consumer_recomputed")
    assert runs.reports["consumer_recomputed"]["recomputed"] == [
        {"layer": layer, "kernels": kernels} for layer, kernels in effect.recomputed_by_layer.items()
    ]
    assert runs.reports["memory_planned"]["recomputed"] is None  # no graph is written


def test_an_mcore_model_swaps_one_layer_and_recomputes_another(runs: Runs) -> None:
    report = runs.reports["mcore_mixed"]
    # MindSpore names a few copies after no layer: tables that layers share
    assert [move["layer"] for move in report["moved"] if move["layer"]] == ["0"]
    assert [layer["layer"] for layer in report["recomputed"]] == ["1"]
    assert [
        found["rule"] for found in report["findings"] if "effect" in found["rule"] or "decided" in found["rule"]
    ] == []


def test_the_documented_rule_would_have_promised_less(runs: Runs) -> None:
    documented = runs.strategy("consumer_recomputed", Versions(mindspore="2.6.0", mindformers="1.5.0"))
    found = compare(documented, runs.effect("consumer_recomputed"), Origin(file="x.yaml"))
    assert [finding.rule for finding in found] == ["effect-without-decision"]
    assert "ffn_norm (Cast) in layer 1" in found[0].message
