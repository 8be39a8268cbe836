"""EXPERT PARALLELISM whose counts of tokens are chosen: a simulated device tells zeros. [mindspore, mindformers]

mindformers 2.1.0 counts on the device how many tokens go to each expert, exchanges the counts, and reads them to cut
what it sends and what it gets. Here all that is done, and what it would have read is what an expert load says: the same
from every rank, in every layer. Source: mindformers 2.1.0, pynative/distributed/expert_parallel.py.
"""

from __future__ import annotations

from typing import Any

from swapconf.dryrun.pynative.expert_load import ExpertLoad


def spread(load: ExpertLoad, rank: int) -> None:
    """``rank``: of this process among all; those that share out experts follow one another."""
    from mindformers.pynative.distributed.expert_parallel import ExpertParallel

    if not hasattr(ExpertParallel, "_derive_splits"):  # 2.0.0, which is refused
        return
    counted, added = ExpertParallel._count_tokens_per_expert, ExpertParallel._add_safe_tokens

    def add(style: Any, tokens: Any, probabilities: Any, chosen: Any, experts: int, each: int) -> Any:
        style._safe_tokens = each if style.use_safe_tokens else 0
        return added(style, tokens, probabilities, chosen, experts, each)

    def count(style: Any, experts_of_tokens: Any, experts: int) -> Any:
        style._tokens_to_send = int(experts_of_tokens.numel())
        return counted(style, experts_of_tokens, experts)

    def splits(style: Any, _told: Any, experts: int, ranks: int) -> tuple[list[int], list[int], list[int]]:
        """Tokens to each rank, from each rank, and from each rank for each of its own experts, rank by rank."""
        share = load.tokens(style._tokens_to_send, experts, ranks, safe=style._safe_tokens)
        own = experts // ranks
        to = [sum(share[one * own : (one + 1) * own]) for one in range(ranks)]
        here = share[rank % ranks * own :][:own]
        return to, [sum(here)] * ranks, here * ranks

    ExpertParallel._add_safe_tokens = add
    ExpertParallel._count_tokens_per_expert = count
    ExpertParallel._derive_splits = splits
