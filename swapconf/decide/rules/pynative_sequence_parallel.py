r"""pynative-sequence-parallel: tensor parallelism without sequence parallelism, in PyNative mode of mindformers 2.1.

Its tensor parallelism computes on parts of sequences throughout, and the configuration is refused where
`sequence_parallel` is not switched on: ``ValueError: PyNative tensor parallelism requires sequence_parallel=True``.
Source: mindformers 2.1.0, pynative/config/config.py, ParallelismConfig. 2.0.0 asks for no such thing.

Fails with 2.1.0: ``parallelism: {tensor_parallel: 2}``. Passes: ``parallelism: {tensor_parallel: 2, sequence_parallel:
True}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.upstream import versions
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-sequence-parallel"
DIALECTS = PYNATIVE
_FIRST = "2.1.0"


def check(case: Case) -> Iterator[Finding]:
    pipeline, used = case.config.pipeline, case.versions.mindformers
    if versions.reached(used, _FIRST) and pipeline.model_parallel > 1 and not pipeline.sequence_parallel:
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin("parallelism.tensor_parallel"),
            phrase(
                "mindformers {version} stops: tensor parallelism in PyNative mode needs sequence_parallel, which is "
                "not on",
                version=used,
            ),
            phrase("write `sequence_parallel: True` into parallelism"),
        )
