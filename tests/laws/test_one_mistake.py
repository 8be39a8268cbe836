"""One mistake made to a valid config gives one finding of severity error, of the rule that is about it, at its line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapconf.checking.request import CheckRequest
from swapconf.checking.run import check_text
from swapconf.study.settings import Settings
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Severity, SwapconfError

ORDER = CheckRequest(file="law.yaml", named=True, settings=Settings(), versions=Versions(), environment={})
COMMON = {
    "use_parallel": "use_parallel: True\n",
    "context": 'context:\n  mode: 0\n  device_target: "Ascend"\n  memory_optimize_level: "O0"\n',
    "parallel_config": "parallel_config:\n  model_parallel: 2\n  pipeline_stage: 2\n",
}
LEGACY = {
    **COMMON,
    "swap_config": "swap_config:\n  swap: True\n  layer_swap:\n    - layers: [0]\n      backward_prefetch: 5\n"
    "  op_swap:\n    - op_name: 'attention\\.flash_attention'\n      layers: [1]\n"
    "      backward_prefetch: 7\n",
    "recompute_config": "recompute_config:\n  recompute: [3]\n  select_recompute:\n    'feed_forward': [2]\n",
    "model": "model:\n  model_config:\n    type: LlamaConfig\n    num_layers: {layers}\n    offset: {offset}\n"
    "    use_flash_attention: True\n  arch:\n    type: LlamaForCausalLM\n",
}
MCORE = {
    **COMMON,
    "use_legacy": "use_legacy: False\n",
    "recompute_config": "recompute_config:\n  recompute: [3]\n",
    "model": "model:\n  model_config:\n    model_type: qwen3\n    architectures: Qwen3ForCausalLM\n"
    "    num_hidden_layers: {layers}\n    offset: {offset}\n"
    "    swap: True\n    layer_swap:\n      - layers: [0]\n        backward_prefetch: 5\n",
}
PYNATIVE = {
    "context": "context:\n  mode: 1\n",
    "training": "training:\n  steps: 10\n  global_batch_size: 8\n",
    "parallelism": "parallelism:\n  tensor_parallel: 1\n  pipeline_parallel: 1\n",
    "model": "model:\n  model_type: qwen3\n  num_hidden_layers: {layers}\n",
    "swap": "swap:\n  enable: True\n  default_prefetch: 1\n  layer_swap:\n    - layers: ['0']\n",
    "recompute": "recompute:\n  mode: full\n  full_recompute_layer: ['2']\n",
}
# (base, the line as it is, the line with the mistake, the rule); a new line that begins with + comes after the other
MISTAKES = [
    (LEGACY, "swap_config:", "swap-config:", "unknown-section"),
    (LEGACY, "swap_config:", "Swap_config:", "unknown-section"),
    (LEGACY, "recompute_config:", "recompute_conf:", "unknown-section"),
    (LEGACY, "recompute_config:", "recompute_cоnfig:", "unknown-section"),
    (LEGACY, "  model_parallel: 2", "+  recompute: True", "section-misplaced"),
    (LEGACY, "  mode: 0", "+  op_swap: [{op_name: attention}]", "section-misplaced"),
    (LEGACY, "    type: LlamaConfig", "+    swap_config: {swap: True}", "section-misplaced"),
    (LEGACY, "use_parallel: True", "+default_prefetch: 4", "section-misplaced"),
    (LEGACY, "      backward_prefetch: 7", "+　　default_prefetch: 4", "odd-indentation"),
    (LEGACY, "  swap: True", "  swap: 1", "bad-type"),
    (LEGACY, "  swap: True", "  swap: 'True'", "bad-type"),
    (LEGACY, "  swap: True", "  swap: Тrue", "bad-type"),
    (LEGACY, "  layer_swap:", "  layerswap:", "unknown-key"),
    (LEGACY, "    - layers: [0]", "    - layers: 0", "bad-type"),
    (LEGACY, "    - layers: [0]", "    - layers: [0，1]", "bad-type"),
    (LEGACY, "    - layers: [0]", "    - layers: [99]", "layer-out-of-range"),
    (LEGACY, "    - layers: [0]", "    - layers: [-1]", "layer-out-of-range"),
    (LEGACY, "      backward_prefetch: 5", "      backward_prefetch: 0", "bad-value"),
    (LEGACY, "      backward_prefetch: 5", "      backward_prefetch: 08", "bad-type"),
    (LEGACY, "      backward_prefetch: 5", "      backward_prefetch: Auto", "bad-type"),
    (
        LEGACY,
        r"    - op_name: 'attention\.flash_attention'",
        "    - op_name: attention.flash_attention",
        "op-unescaped-dot",
    ),
    (
        LEGACY,
        r"    - op_name: 'attention\.flash_attention'",
        r"    - op_name: 'attention\\.flash_attention'",
        "bad-pattern",
    ),
    (
        LEGACY,
        r"    - op_name: 'attention\.flash_attention'",
        r'    - op_name: "attention\.flash_attention"',
        "yaml-syntax",
    ),
    (LEGACY, r"    - op_name: 'attention\.flash_attention'", r"    - op_name: 'attention\.flash'", "op-no-match"),
    (LEGACY, r"    - op_name: 'attention\.flash_attention'", "    - op_name: аttention", "op-no-match"),
    (LEGACY, r"    - op_name: 'attention\.flash_attention'", "    - op_name: 3", "bad-type"),
    (LEGACY, "  recompute: [3]", "  recompute: 3", "bad-type"),
    (LEGACY, "  recompute: [3]", "  recompute: [[1, 1]]", "recompute-form"),
    (LEGACY, "  recompute: [3]", "  recompute: [99]", "layer-out-of-range"),
    (LEGACY, "  recompute: [3]", "  recomptue: [3]", "unknown-key"),
    (LEGACY, "    'feed_forward': [2]", "    'feed_forward': {}", "bad-type"),
    (LEGACY, "    offset: {offset}", "    offset: [5, 0]", "stage-offset"),
    (LEGACY, '  memory_optimize_level: "O0"', '  memory_optimize_level: "O1"', "memory-optimize-level"),
    (LEGACY, "  mode: 0", "  mode: 1", "unsupported-runtime"),
    (MCORE, "use_legacy: False", "use_legacy: 'False'", "bad-value"),
    (MCORE, "    swap: True", "    cpu_offloading: True", "mcore"),
    (MCORE, "    layer_swap:", "    cpu_offloading_num_layers:", "mcore"),
    (MCORE, "    layer_swap:", "    layr_swap:", "unknown-key"),
    (MCORE, "recompute_config:", "+  recompute_slice_activation: True", "mcore"),
    (MCORE, "    swap: True", "+    mp_comm_recompute: False", "section-given-twice"),
    (MCORE, "      - layers: [0]", "      - layers: [99]", "layer-out-of-range"),
    (MCORE, "  model_parallel: 2", "+  context_parallel_algo: hybrid_cp", "context-parallel"),
    (MCORE, "  model_parallel: 2", "+  expert_parallel: 2", "expert-parallel"),
    (MCORE, "    model_type: qwen3", "+    vocab_size: 4097", "vocabulary-split"),
    (PYNATIVE, "swap:", "Swap:", "unknown-section"),
    (PYNATIVE, "swap:", "swap_config:", "two-dialects"),
    (PYNATIVE, "  enable: True", "  swap: True", "unknown-key"),
    (PYNATIVE, "    - layers: ['0']", "    - layers: ['1-0']", "bad-value"),
    (PYNATIVE, "    - layers: ['0']", "    - layers: ['99']", "layer-out-of-range"),
    (PYNATIVE, "  mode: full", "  mode: Full", "bad-type"),
    (PYNATIVE, "  mode: full", "  mode: select", "pynative-form"),
    (PYNATIVE, "  steps: 10", "+  swap: {enable: True, layer_swap: [{layers: ['0']}]}", "section-misplaced"),
]


def findings(text: str) -> tuple[Finding, ...]:
    try:
        return check_text(ORDER, text).findings
    except SwapconfError as error:
        return error.findings


@st.composite
def texts(draw: st.DrawFn, base: dict[str, str], line: str = "", mistake: str = "") -> str:
    """The sections of a base in some order, of a model of some size, with comments between; with the mistake in it."""
    layers = draw(st.integers(min_value=6, max_value=40))
    parts = []
    for name in draw(st.permutations(list(base))):
        part = base[name]
        if line and f"{line}\n" in f"\n{part}" and re.search(f"^{re.escape(line)}$", part, re.MULTILINE):
            new = f"{line}\n{mistake[1:]}" if mistake.startswith("+") else mistake
            part = re.sub(f"^{re.escape(line)}$", new.replace("\\", r"\\"), part, count=1, flags=re.MULTILINE)
        parts.append(part + draw(st.sampled_from(["", "\n", "# why\n", "\n# a，b：c\n\n"])))
    return "".join(parts).replace("{layers}", str(layers)).replace("{offset}", "[0, 1]" if layers % 2 else "0")


@pytest.mark.parametrize("base", [LEGACY, MCORE, PYNATIVE], ids=["legacy", "mcore", "pynative"])
@settings(max_examples=10)
@given(data=st.data())
def test_the_bases_are_valid(base: dict[str, str], data: st.DataObject) -> None:
    found = findings(data.draw(texts(base)))
    assert [str(finding) for finding in found if finding.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(
    ("base", "line", "mistake", "rule"), MISTAKES, ids=[f"{rule} {mistake.strip()}" for _, _, mistake, rule in MISTAKES]
)
@settings(max_examples=8)
@given(data=st.data())
def test_one_mistake_is_one_error_at_its_line(
    base: dict[str, str], line: str, mistake: str, rule: str, data: st.DataObject
) -> None:
    text = data.draw(texts(base, line, mistake))
    written = mistake.removeprefix("+").splitlines()[0]
    (place,) = (number for number, each in enumerate(text.splitlines(), start=1) if each == written)
    errors = [finding for finding in findings(text) if finding.severity is Severity.ERROR]
    assert [(finding.rule, finding.origin.line) for finding in errors] == [(rule, place)], [*map(str, errors)]
