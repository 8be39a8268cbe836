r"""pynative-precision: an optimizer that asks for a precision which this MindSpore cannot be told, in PyNative mode.

Muon of mindformers 2.1.0 switches on ``op_precision.cube_math_type``, so that products of bfloat16 are added in
float32. MindSpore 2.10.0 has no such setting, and the training stops: ``RuntimeError: cube_math_type(4) for Muon
requires MindSpore support``. It decides about values alone, so a dry run goes on without it. Source: mindformers 2.1.0,
pynative/optimizer/muon.py, _enable_muon_cube_math_type; MindSpore 2.10.0, device_context/ascend/op_precision.py.

Fails with mindformers 2.1.0 and MindSpore 2.10.0: ``optimizer: {type: Muon}``. Passes: ``optimizer: {type: AdamW}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.upstream import versions
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-precision"
DIALECTS = PYNATIVE
_OPTIMIZER = "Muon"
_ASKS, _HAS = "2.1.0", "2.11.0"  # the first mindformers that asks for it, and the MindSpore that it is released for


def check(case: Case) -> Iterator[Finding]:
    used = case.versions
    is_asked_for = case.config.layout.optimizer == _OPTIMIZER and versions.reached(used.mindformers, _ASKS)
    if is_asked_for and not versions.reached(used.mindspore, _HAS):
        yield finding(
            RULE,
            Severity.WARNING,
            case.config.origin("optimizer.type"),
            phrase(
                "a training stops: Muon of mindformers {mindformers} asks for op_precision.cube_math_type, which "
                "MindSpore {mindspore} does not have",
                mindformers=used.mindformers,
                mindspore=used.mindspore,
            ),
            phrase(
                "train with MindSpore {first}; a dry run goes on without it, as it decides about values and not about "
                "memory",
                first=_HAS,
            ),
        )
