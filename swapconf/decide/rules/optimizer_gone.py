r"""optimizer-gone: an optimizer that the mindformers in use no longer has.

``FP32StateAdamWeightDecay`` and ``FusedAdamWeightDecay`` were in mindformers up to 1.5.0, and in most of the YAMLs that
it came with; 1.6.0 removed them, and a training stops with "Can't find class type optimizer". A warning only: code that
``auto_register`` loads may bring one of that name.

Fails: ``optimizer: {type: FP32StateAdamWeightDecay}`` with mindformers 1.9.0. Passes: ``type: AdamW`` there.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "optimizer-gone"
PATH = "optimizer.type"
_GONE = frozenset({"FP32StateAdamWeightDecay", "fp32_adamw", "FusedAdamWeightDecay", "fused_adamw"})


def check(case: Case) -> Iterator[Finding]:
    name = case.config.optimizer
    fact = case.versions.fact("fused_optimizers_gone")
    if name not in _GONE or not fact.value:
        return
    yield finding(
        RULE,
        Severity.WARNING,
        case.config.origin(PATH),
        phrase("mindformers {version} has no optimizer `{name}`", version=case.versions.mindformers, name=name),
        phrase(
            "write `type: AdamW`, and `betas: [b1, b2]` for `beta1: b1` and `beta2: b2` ({source})", source=fact.source
        ),
        stops_with=f"class type optimizer class name {name} ",
    )
