r"""unsupported-runtime: swap needs the Ascend back end, graph mode and jit level O0 or O1.

Source: documented constraints. A device other than Ascend is a warning, because small models are debugged on the CPU:
there the flags are set and nothing moves. Fails: ``context.mode: 1``, ``jit_config: {jit_level: "O2"}``.
Passes: ``device_target: "Ascend"``, ``mode: 0``, ``jit_level: "O0"``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "unsupported-runtime"


def check(case: Case) -> Iterator[Finding]:
    runtime, origin = case.config.runtime, case.config.origin
    if not case.config.swap_on:
        return
    if runtime.device_target is not None and runtime.device_target.lower() != "ascend":
        yield finding(
            RULE,
            Severity.WARNING,
            origin("context.device_target"),
            phrase(
                "swap acts on Ascend only; on {device} the flags are set and nothing moves",
                device=runtime.device_target,
            ),
            phrase('write device_target: "Ascend" for the real run'),
        )
    if runtime.graph_mode is False:
        yield finding(
            RULE,
            Severity.ERROR,
            origin("context.mode"),
            phrase("swap needs graph mode; PyNative ignores it"),
            phrase("write mode: 0"),
        )
    if runtime.jit_level is not None and runtime.jit_level not in ("O0", "O1"):
        yield finding(
            RULE,
            Severity.ERROR,
            origin("context.jit_config.jit_level", "context.jit_level"),
            phrase("swap supports jit_level O0 and O1, not {level}", level=runtime.jit_level),
            phrase('write jit_level: "O0"'),
        )
