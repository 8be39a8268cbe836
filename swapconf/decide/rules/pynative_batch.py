r"""pynative-batch: a batch that the ranks cannot share, in PyNative mode.

Each rank takes `local_batch_size` samples at once, so `global_batch_size` holds at least as many for each rank of
`data_parallel_shard`, and with mindformers 2.1.0 a multiple of that. Where the shards are as many as the cards give
(-1), it is that of one rank at least. mindformers stops when its trainer starts. Both are 1 where they are not given.
Source: mindformers 2.0.0 and 2.1.0, pynative/trainer/trainer.py, _compute_data_parallel_size.

Fails: ``training: {local_batch_size: 2, global_batch_size: 8}`` with ``parallelism: {data_parallel_shard: 8}``.
Passes: ``global_batch_size: 16``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.upstream import versions
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase, plural

RULE = "pynative-batch"
DIALECTS = PYNATIVE
_FIRST_WITHOUT_REST = "2.1.0"


def check(case: Case) -> Iterator[Finding]:
    layout, used = case.config.layout, case.versions.mindformers
    samples, each, ranks = layout.samples, layout.samples_at_once, max(layout.shards or 1, 1)
    if samples is None or each is None or min(samples, each) < 1:
        return
    has_rest = versions.reached(used, _FIRST_WITHOUT_REST) and samples % (ranks * each)
    if samples < ranks * each or has_rest:
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin("training.global_batch_size", "training"),
            plural(
                ranks,
                "mindformers stops: a global_batch_size of {batch} is no multiple of local_batch_size {each}",
                "{ranks} ranks of local_batch_size {each} cannot share a global_batch_size of {batch}, and mindformers "
                "stops",
                ranks=ranks,
                each=each,
                batch=samples,
            ),
            phrase("write a multiple of {size} for global_batch_size", size=ranks * each),
        )
