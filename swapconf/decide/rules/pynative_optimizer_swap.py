r"""pynative-optimizer-swap: `optimizer.swap` in PyNative mode, where nothing of it happens.

In graph mode it keeps the optimizer's state on the host. The AdamW of PyNative training takes any key and looks at
this one nowhere, so its state stays on the card, without a word. Source: mindformers 2.0.0 and 2.1.0,
pynative/optimizer/adamw.py. MindSpore 2.11 has such a swap for PyNative mode in hyper_parallel (``swap_optimizer``:
Adam's state in pinned host memory, in and out batch by batch during the update). No key of mindformers 2.1.0 reaches
it, and swapconf does not predict it.

Fails: ``optimizer: {type: AdamW, swap: True}``. Passes: ``parallelism: {data_parallel_shard: -1}``, which shards it.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-optimizer-swap"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    if case.config.runtime.optimizer_swap:
        yield finding(
            RULE,
            Severity.WARNING,
            case.config.origin("optimizer.swap"),
            phrase("no effect: in PyNative mode mindformers' AdamW keeps its state on the card, and does not say so"),
            phrase("remove it; `parallelism.data_parallel_shard` shards the state over the cards"),
        )
