r"""pynative-tensor-parallel: tensor parallelism without latent attention, in PyNative mode of mindformers 2.0.

It splits the projections that multi-latent attention has, and asks each attention for their ranks. Qwen3's has none:
the run stops with an AttributeError (``q_lora_rank``) while the model is parallelized. Source: mindformers 2.0.0,
pynative/base_models/gpt/parallelize.py, the plan of a layer. 2.1.0 has a plan for such models, too.

Fails with 2.0.0: ``parallelism: {tensor_parallel: 2}`` with ``model_type: qwen3``. Passes: ``tensor_parallel: 1``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.upstream import versions
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-tensor-parallel"
DIALECTS = PYNATIVE
_FIRST_WITH_A_PLAN = "2.1.0"


def check(case: Case) -> Iterator[Finding]:
    used = case.versions.mindformers
    stops = versions.reached(used, versions.PYNATIVE) and not versions.reached(used, _FIRST_WITH_A_PLAN)
    if stops and case.config.pipeline.model_parallel > 1 and case.config.model.section.get("model_type") == "qwen3":
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin("parallelism.tensor_parallel"),
            phrase(
                "mindformers {version} stops: its tensor parallelism in PyNative mode is that of multi-latent "
                "attention, which qwen3 has not",
                version=used,
            ),
            phrase(
                "write tensor_parallel: 1, or use mindformers {version}, which has it with sequence_parallel: True",
                version=_FIRST_WITH_A_PLAN,
            ),
        )
