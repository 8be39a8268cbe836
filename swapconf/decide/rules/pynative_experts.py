r"""pynative-experts: an expert parallelism that does not fit the ranks or the experts, in PyNative mode.

Experts are shared out over ranks of one stage that train on different parts: their number, `data_parallel_shard` x
`context_parallel` x `tensor_parallel`, must be a multiple of `expert_parallel`, and so must the number of experts.
Dispatch by `alltoall_deredundancy` needs at least the ranks of a node (`npu_nums_per_device`, 8). With
`data_parallel_shard: -1` the YAML does not tell how many ranks there are. Source: mindformers 2.0.0 and 2.1.0,
pynative/distributed/parallel_dims.py, pynative/distributed/expert_parallel.py and pynative/config/config.py.

Fails: ``parallelism: {data_parallel_shard: 2, expert_parallel: 4}``. Passes: ``data_parallel_shard: 4``.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.config.layout import EXPERTS
from swapconf.decide.rules.case import PYNATIVE, Case, finding
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase

RULE = "pynative-experts"
DIALECTS = PYNATIVE


def check(case: Case) -> Iterator[Finding]:
    config = case.config
    layout, pipeline = config.layout, config.pipeline
    degree, at = layout.experts, config.origin("parallelism.expert_parallel")
    if layout.spares_copies and degree < layout.cards_of_a_node:
        yield finding(
            RULE,
            Severity.ERROR,
            config.origin("parallelism.moe_token_dispatcher_type"),
            phrase(
                "mindformers stops: alltoall_deredundancy needs an expert_parallel of at least {cards}, the ranks of a "
                "node, and it is {degree}",
                cards=layout.cards_of_a_node,
                degree=degree,
            ),
            phrase("write `moe_token_dispatcher_type: alltoall`, or a larger expert_parallel"),
        )
    if degree <= 1:
        return
    ranks = (layout.shards or 0) * pipeline.context_parallel * pipeline.model_parallel
    if ranks % degree:
        yield finding(
            RULE,
            Severity.ERROR,
            at,
            phrase(
                "mindformers stops: {ranks} ranks (data_parallel_shard x context_parallel x tensor_parallel) do not go "
                "into expert_parallel {degree}",
                ranks=ranks,
                degree=degree,
            ),
            phrase("write a degree that divides them, or a larger data_parallel_shard"),
        )
    experts = config.model.count(*EXPERTS)
    if experts is not None and experts % degree:
        yield finding(
            RULE,
            Severity.ERROR,
            at,
            phrase(
                "{experts} experts do not go into expert_parallel {degree}: each rank has as many as the others",
                experts=experts,
                degree=degree,
            ),
            phrase("write a degree that divides them"),
        )
