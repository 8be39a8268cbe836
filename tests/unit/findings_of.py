"""What `check` says of a text, for tests that look at one mistake."""

from __future__ import annotations

from collections.abc import Mapping

from swapconf.checking.request import CheckRequest
from swapconf.checking.run import check_text
from swapconf.study.settings import Settings
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, SwapconfError

LLAMA = """\
use_parallel: True
parallel_config: {pipeline_stage: 2}
context: {mode: 0, device_target: "Ascend", memory_optimize_level: "O0"}
model:
  model_config: {type: LlamaConfig, num_layers: 4, use_flash_attention: True}
  arch: {type: LlamaForCausalLM}
"""
QWEN3 = """\
use_legacy: False
use_parallel: True
parallel_config: {pipeline_stage: 2}
model:
  model_config: {model_type: qwen3, architectures: Qwen3ForCausalLM, num_hidden_layers: 4}
"""
PYNATIVE = """\
training: {steps: 1}
parallelism: {tensor_parallel: 1, pipeline_parallel: 1}
model: {model_type: qwen3, num_hidden_layers: 8}
"""


def found(
    text: str, versions: Versions | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    order = CheckRequest(
        file="f.yaml", named=True, settings=Settings(), versions=versions or Versions(), environment=environment or {}
    )
    try:
        return check_text(order, text).findings
    except SwapconfError as error:
        return error.findings


def only(text: str) -> Finding:
    """The one finding that there must be."""
    (finding,) = found(text)
    return finding


def of(text: str, rule: str) -> Finding:
    """The one finding of a rule."""
    (finding,) = (finding for finding in found(text) if finding.rule == rule)
    return finding
