r"""micro-batches: fewer of them than pipeline stages (a note).

Then some stage waits at every moment of the step. MindSpore says that there should be at least as many
(nn/wrap/cell_wrapper.py:883 of 2.9.0), and nobody refuses it: compiled and run with 2 micro-batches on 4 stages. With
``zero_bubble_v`` an mcore model stops below twice as many (an error; mindformers 1.7.0 to 1.9.0,
parallel_core/transformer_config.py:2308).

Fails: ``micro_batch_num: 2`` with ``pipeline_stage: 4``. Passes: ``micro_batch_num: 8``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.layout import READ_SINCE, layout_of
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.versions import reached
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "micro-batches"
PATH = "parallel_config.micro_batch_num"


def check(case: Case) -> Iterator[Finding]:
    config, stages = case.config, case.config.pipeline.num_stages
    count = config.given.get(PATH)
    if layout_of(config) is None or stages == 1 or type(count) is not int or count < 1:
        return
    known = case.network is not None and case.network.family is not None
    refuses = known and not config.model.legacy and reached(case.versions.mindformers, READ_SINCE)
    if config.pipeline.zero_bubble_v and refuses and count < 2 * stages:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin(PATH),
            phrase(
                "zero_bubble_v needs two micro-batches or more for each stage, {least} for {stages}, and mcore models "
                "stop at fewer",
                least=2 * stages,
                stages=stages,
            ),
            phrase("write `micro_batch_num: {least}` or more", least=2 * stages),
            stops_with=r"micro_batch_num\(\d+\) >= 2 \* stage_num",
        )
    elif count < stages:
        yield finding(
            RULE,
            Severity.NOTE,
            config.origin(PATH),
            phrase(
                "fewer micro-batches than stages ({count} for {stages}): some stage waits at every moment of the step",
                count=count,
                stages=stages,
            ),
            phrase("`micro_batch_num` of {stages} or more fills the pipeline; fewer stages do, too", stages=stages),
        )
