r"""micro-batches: fewer of them than pipeline stages (a note).

Then some stage waits at every moment of the step. MindSpore says that there should be at least as many
(nn/wrap/cell_wrapper.py:883 of 2.9.0), and nobody refuses it: compiled and run with 2 micro-batches on 4 stages. Only a
number that is written is told.

Fails: ``micro_batch_num: 2`` with ``pipeline_stage: 4``. Passes: ``micro_batch_num: 8``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import MICRO_BATCHES, layout_of
from swapconf.decide.rules.case import Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "micro-batches"


def check(case: Case) -> Iterator[Finding]:
    config, stages = case.config, case.config.pipeline.num_stages
    count = config.given.get(MICRO_BATCHES)
    if layout_of(config) is None or stages == 1 or type(count) is not int or count < 1:
        return
    if count < stages and not config.pipeline.zero_bubble_v:  # which needs more still, as another rule says
        yield finding(
            RULE,
            Severity.NOTE,
            config.origin(MICRO_BATCHES),
            phrase(
                "fewer micro-batches than stages ({count} for {stages}): some stage waits at every moment of the step",
                count=count,
                stages=stages,
            ),
            phrase("write `micro_batch_num: {stages}` or more, or take fewer stages", stages=stages),
        )
