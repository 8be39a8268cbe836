"""A rank that fails is told at the line of what `check` foresaw, else where the words of the framework point."""

from __future__ import annotations

import pytest

from swapconf.config.yaml_document import parse
from swapconf.dryrun.failed import failed
from swapconf.dryrun.outcome import Fault, RankOutcome
from swapconf.study.study import Study, study_document
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding
from tests.helpers import ROOT, study_of_values
from tests.unit.findings_of import LLAMA, QWEN3
from tests.unit.test_upstream_cases import BASE
from tests.unit.upstream_cases import CASES, Case

SMALL = (ROOT / "configs/small/qwen3_default_swap.yaml").read_text(encoding="utf-8")
NO_CLASS = "ValueError: Can't find class type optimizer class name {} in class registry when use_legacy=True"
GONE = NO_CLASS.format("FP32StateAdamWeightDecay")
CONFLICT = (
    "ValueError: Qwen3ForCausalLM: Converted config failed with the following problems: [Mapping Conflicts] (1 "
    "problem) - target key'cpu_offloading' is mapped by multiple source keys: ['swap', 'cpu_offloading', "
    "'cpu_offloading'] current convert is cpu_offloading:True, please check other source key"
)
OPTIMIZER = "optimizer:\n  type: FP32StateAdamWeightDecay\n"
SWAP = "swap_config:\n  swap: True\n"


def study(text: str) -> Study:
    return study_document(parse(text, "train.yaml"), Versions(mindspore="2.9.0", mindformers="1.9.0"), {})


def told(text: str, words: str, *paths: str, outcome: RankOutcome = RankOutcome.STOPPED) -> Finding:
    return failed(study(text), Fault(outcome, words, paths), 0, "stopped with an error", "")


@pytest.mark.parametrize(
    ("text", "words", "rule", "path"),
    [
        (OPTIMIZER + LLAMA, GONE, "optimizer-gone", "optimizer.type"),
        (
            QWEN3.replace("{model_type", "{cpu_offloading: True, model_type"),
            CONFLICT,
            "mcore",
            "model.model_config.cpu_offloading",
        ),
        (
            SWAP + QWEN3.replace("{model_type", "{cpu_offloading: True, model_type"),
            CONFLICT,
            "mcore",
            "model.model_config.cpu_offloading",
        ),
        (
            "recompute_config: {recompute_slice_activation: True}\n" + QWEN3,
            "ValueError: Qwen3ForCausalLM: For recompute, `recompute_slice_activation` is not supported in Mcore.",
            "mcore",
            "recompute_config.recompute_slice_activation",
        ),
        (
            "recompute_config: {select_recompute: {'feed_forward\\.w1': True}}\n" + SWAP + LLAMA,
            "ValueError: Layer info of select_recompute must be list when enabling swap, but get <class 'bool'>.",
            "plain-mindformers-differs",
            "recompute_config.select_recompute.feed_forward\\.w1",
        ),
        (
            "recompute_config: {select_recompute: {'self_attention\\.q_layernorm': True}}\n" + QWEN3,
            "RuntimeError: The pointer[prim] is null.",
            "does-not-compile",
            "recompute_config.select_recompute.self_attention\\.q_layernorm",
        ),
    ],
)
def test_what_check_foresaw_is_told_at_its_line_with_its_remedy(text: str, words: str, rule: str, path: str) -> None:
    foreseen = next(finding for finding in study(text).findings if (finding.rule, finding.origin.path) == (rule, path))
    finding = told(text, words)
    assert finding.origin == foreseen.origin
    assert finding.origin.line > 0
    assert f"({rule}: " in finding.message
    assert words in finding.message
    assert finding.hint.startswith(foreseen.hint)


def test_a_crash_is_told_at_the_prefetch_that_may_be_its_cause() -> None:
    text = "swap_config:\n  swap: True\n  default_prefetch: 400\n" + LLAMA
    words = "SIGSEGV in MindSpore, often a backward_prefetch that is too large"
    assert told(text, words, outcome=RankOutcome.CRASHED).origin.path == "swap_config.default_prefetch"


def test_what_quotes_such_words_and_ended_for_another_cause_is_not_put_down_to_them() -> None:
    words = f"ended after 9 s; the last lines were: {GONE}"
    finding = told(OPTIMIZER + LLAMA, words, outcome=RankOutcome.TIMED_OUT)
    assert "optimizer-gone" not in finding.message


@pytest.mark.parametrize(
    ("text", "words", "paths", "path"),
    [
        (SMALL, "ValueError: no such data set", ("train_dataset", "train_dataset_task"), "train_dataset"),
        (SMALL, "ValueError: experts", ("parallel_config.expert_parallel", "model.model_config"), "model.model_config"),
        (SMALL, "ValueError: experts", ("parallel_config.expert_parallel",), "parallel_config"),
        (SMALL.replace("type: AdamW", "type: Adamm"), NO_CLASS.format("Adamm"), (), "optimizer.type"),
        ("mine:\n  - {type: Mine}\n" + SMALL, NO_CLASS.format("Mine"), (), "mine[0].type"),
    ],
)
def test_what_nothing_foresaw_is_told_where_its_words_point(
    text: str, words: str, paths: tuple[str, ...], path: str
) -> None:
    finding = told(text, words, *paths)
    assert finding.origin.path == path
    assert path.rpartition(".")[2].partition("[")[0] in text.splitlines()[finding.origin.line - 1]


def test_a_class_that_stands_twice_and_words_that_point_nowhere_are_of_the_file() -> None:
    twice = "mine:\n  - {type: Mine}\n  - {type: Mine}\n" + SMALL
    assert told(twice, NO_CLASS.format("Mine")).origin.line == 0
    assert told(SMALL, "KeyError: 7").origin.line == 0


STOPPED = [case for case in CASES if "cell_init_args" in case.upstream]


@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.name)
def test_what_mindformers_was_measured_to_stop_with_is_foreseen(case: Case) -> None:
    studied = study_of_values({**BASE, "swap_config": case.swap, "recompute_config": case.recompute})
    finding = failed(studied, Fault(RankOutcome.STOPPED, case.upstream), 0, "stopped with an error", "")
    assert finding.origin.path.startswith(("swap_config.", "recompute_config."))
    assert "plain-mindformers-differs" in finding.message
