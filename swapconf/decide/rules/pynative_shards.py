r"""pynative-shards: a `data_parallel_shard` of 0, or a `dense_fsdp_shard_size` that does not divide the shards.

mindformers divides the ranks by `data_parallel_shard`, so 0 ends with a ZeroDivisionError; -1 stands for all of them.
`dense_fsdp_shard_size` must divide `data_parallel_shard` x `context_parallel`. Source: mindformers 2.0.0 and 2.1.0,
pynative/trainer/trainer.py, _compute_data_parallel_size, and pynative/distributed/parallel_dims.py,
get_fsdp_shard_mesh.

Fails: ``parallelism: {data_parallel_shard: 0}``. Passes: ``parallelism: {data_parallel_shard: -1}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-shards"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    shards, dense = config.layout.shards, config.layout.dense_shards
    if shards == 0:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("parallelism.data_parallel_shard"),
            phrase("mindformers stops: it divides the ranks by data_parallel_shard, which is 0"),
            phrase("write -1 for all ranks that there are, or 1 to shard nothing"),
        )
    elif dense is not None and shards is not None:
        ranks = shards * config.pipeline.context_parallel
        if dense < 1 or ranks % dense:
            yield finding(
                RULE,
                Severity.ERROR,
                config.origin("parallelism.dense_fsdp_shard_size"),
                phrase(
                    "mindformers stops: dense_fsdp_shard_size {dense} does not divide {ranks} ranks "
                    "(data_parallel_shard x context_parallel)",
                    dense=dense,
                    ranks=ranks,
                ),
                phrase("write a number that divides them, or remove it"),
            )
