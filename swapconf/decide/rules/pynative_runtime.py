r"""pynative-runtime: PyNative's sections in a run that does not read them, or that refuses them.

Graph mode (``context.mode: 0``) reads ``swap_config`` and ``recompute_config`` and nothing of ``swap`` and
``recompute``. With pipeline parallelism mindformers refuses swap. Source: mindformers 2.0.0 and 2.1.0,
pynative/distributed/activation_checkpoint.py, apply_ac. The swap of a pipeline's activations in MindSpore 2.11 is
hyper_parallel's, by stage and micro-batch, and mindformers 2.1.0 does not let it be asked for.

Fails: ``swap: {enable: True, ...}`` with ``parallelism: {pipeline_parallel: 2}``. Passes: ``pipeline_parallel: 1``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-runtime"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    if config.runtime.graph_mode:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("context.mode"),
            phrase("graph mode reads nothing of `swap`, `recompute` and `recompute_comm`"),
            phrase("write mode: 1, or rewrite the sections with `swapconf migrate --to legacy`"),
        )
    if config.swap_on and config.pipeline.num_stages > 1:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("swap.enable"),
            phrase("mindformers refuses swap with {stages} pipeline stages", stages=config.pipeline.num_stages),
            phrase("use recompute, or one stage"),
        )
