r"""pynative-shards: shards of parameters that are none, are not told, or have parts that do not divide them.

mindformers divides the ranks by `data_parallel_shard`, so 0 ends with a ZeroDivisionError; -1 stands for all of them.
`dense_fsdp_shard_size` must divide `data_parallel_shard` x `context_parallel`. Source: mindformers 2.0.0 and 2.1.0,
pynative/trainer/trainer.py, _compute_data_parallel_size, and pynative/distributed/parallel_dims.py,
get_fsdp_shard_mesh.

With -1, or without the key, the YAML does not tell how many ranks there are; where `expert_parallel` or
`dense_fsdp_shard_size` depends on that, a note says that it is not checked. A dry run, what-if and plan take it for 1.

Fails: ``parallelism: {data_parallel_shard: 0}``. Passes: ``parallelism: {data_parallel_shard: -1}``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import joined, phrase

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
    elif shards is None:
        yield from _untold(case)
    elif dense is not None:
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


def _untold(case: Case) -> Iterator[Finding]:
    layout = case.config.layout
    degrees = {"expert_parallel": layout.experts > 1, "dense_fsdp_shard_size": layout.dense_shards is not None}
    if depending := [key for key, counts in degrees.items() if counts]:
        yield finding(
            RULE,
            Severity.NOTE,
            case.config.origin("parallelism.data_parallel_shard", f"parallelism.{depending[0]}"),
            phrase(
                "data_parallel_shard is what the cards of the launch give, which the YAML does not tell: whether "
                "{keys} divides the ranks is not checked",
                keys=joined(", ", depending),
            ),
            phrase("a dry run takes it for 1; tell how many there will be: --set parallelism.data_parallel_shard=8"),
        )
