"""STUDY + LEVEL + ENVIRONMENT -> FINDINGS: configs of which there is no dry run here, each with the reason.

``jit_level: O2`` hands the graph to CANN's graph engine, which plans the memory itself; without a CANN MindSpore 2.9.0
cannot even compile it ("Load backend failed").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swapconf.config.config import Dialect
from swapconf.dryrun.cann import find_cann
from swapconf.dryrun.environment import without_shim
from swapconf.dryrun.pynative import refusals
from swapconf.study.study import Study
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "graph-engine-not-rehearsed"
_GRAPH_ENGINE = "O2"


def not_rehearsed(study: Study, level: int, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Errors."""
    yield from refusals.refusals(study, level)
    config = study.config
    if (
        config.runtime.jit_level == _GRAPH_ENGINE
        and config.dialect is not Dialect.PYNATIVE
        and not find_cann(without_shim(environment))
    ):
        yield Finding(
            origin=config.origin("context.jit_config.jit_level", "context.jit_level"),
            rule=RULE,
            severity=Severity.ERROR,
            message=phrase(
                "jit_level O2 leaves the graph and its memory to CANN's graph engine, and there is no CANN here: "
                "MindSpore cannot compile it"
            ),
            hint=phrase(
                "ask for the graph that MindSpore runs kernel by kernel: --set context.jit_config.jit_level=O1, or O0 "
                "without fused kernels"
            ),
        )
