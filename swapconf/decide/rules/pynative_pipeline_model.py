r"""pynative-pipeline-model: a pipeline of a model that cannot be cut into stages, in PyNative mode.

A stage builds the model with the numbers of its layers (`layer_start`, `layer_end`), and only the PyNative models of
DeepSeek-V3 and DeepSeek-V4 take these: with others, Qwen3 for one, the run stops with a TypeError while its stages are
built. Source: mindformers 2.0.0 and 2.1.0, pynative/distributed/pipeline_parallel.py, StageModelBuilder, and
models/\*/modeling_\*_pynative.py.

Fails: ``parallelism: {pipeline_parallel: 2}`` with ``model_type: qwen3``. Passes: ``pipeline_parallel: 1``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-pipeline-model"
DIALECTS = PYNATIVE
WITHOUT_STAGES = frozenset({"qwen3", "qwen3_moe", "glm4", "glm4_moe", "telechat3", "telechat3_moe"})


def check(case: Case) -> Iterator[Finding]:
    kind = str(case.config.model.section.get("model_type"))
    if case.config.pipeline.num_stages > 1 and kind in WITHOUT_STAGES:
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin("parallelism.pipeline_parallel"),
            phrase(
                "mindformers stops: in PyNative mode {model} cannot be cut into the stages of a pipeline", model=kind
            ),
            phrase("write `pipeline_parallel: 1`; deepseek_v3 and deepseek_v4 have stages"),
        )
