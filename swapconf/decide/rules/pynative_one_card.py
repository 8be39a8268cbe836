r"""pynative-one-card: recompute or swap in a PyNative run of one card, where nothing of it happens.

mindformers applies the sections `recompute`, `recompute_comm` and `swap` while it parallelizes the model, and it does
that only where the run has more than one card; on one card it leaves them out without a word. A run is surely of one
card where its batch cannot be shared: `global_batch_size` holds less than two batches of `local_batch_size`, and no
other degree of `parallelism` is above 1. Source: mindformers 2.0.0 and 2.1.0, pynative/trainer/trainer.py, where
`_apply_parallelism` asks for `world_size > 1`, and pynative/base_models/gpt/parallelize.py, the only caller of
`apply_ac`.

Fails: ``training: {local_batch_size: 1, global_batch_size: 1}`` with ``recompute: {mode: full, ...}``.
Passes: ``global_batch_size: 8``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.modules import ONE_CARD
from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = ONE_CARD
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    if config.pipeline.is_one_card and case.asks_for_anything:
        yield finding(
            RULE,
            Severity.WARNING,
            case.asked_at,
            phrase(
                "this run is of one card (global_batch_size holds one batch of local_batch_size), and there "
                "mindformers applies neither recompute nor swap, and does not say so"
            ),
            phrase("remove the sections, or train on several cards with a larger global_batch_size"),
        )
