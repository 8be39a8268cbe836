r"""optimizer-shard-size: an ``optimizer_weight_shard_size`` of more cards than there are.

With the parallel optimizer MindSpore stops while it compiles, and the last line of the error says "parallel init
failed" alone: MindSpore 2.9.0, ``ParallelInit`` (frontend/parallel/step_parallel_utils.cc:3157); executed with
mindformers 1.9.0 and its DeepSeek-V3 671B on fewer cards than its 256.

Fails: ``optimizer_weight_shard_size: 256`` with ``enable_parallel_optimizer: True`` on 64 cards. Passes: 64 of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.cluster import Cluster
from swapconf.decide.layout import layout_of
from swapconf.decide.rules.case import Case, finding
from swapconf.upstream.conditional import OPTIMIZER_SHARDS, SHARDS_OPTIMIZER
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "optimizer-shard-size"


def check(case: Case) -> Iterator[Finding]:
    given, layout = case.config.given, layout_of(case.config)
    size = given.get(OPTIMIZER_SHARDS)
    if layout is None or layout.data is None or given.get(SHARDS_OPTIMIZER) is not True or type(size) is not int:
        return
    cards = Cluster(
        data_parallel=layout.data,
        model_parallel=layout.tensors,
        context_parallel=layout.contexts,
        num_stages=case.config.pipeline.num_stages,
    ).num_devices
    if size > cards:
        yield finding(
            RULE,
            Severity.ERROR,
            case.config.origin(OPTIMIZER_SHARDS),
            phrase(
                "`optimizer_weight_shard_size: {size}` is more than the {cards} cards of this layout, and MindSpore "
                "stops (`parallel init failed`)",
                size=size,
                cards=cards,
            ),
            phrase("write {cards} or less, or -1 for as many as there are replicas", cards=cards),
            stops_with=r"parallel init failed",
        )
