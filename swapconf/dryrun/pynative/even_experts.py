"""EXPERT PARALLELISM whose counts of tokens are even: a simulated device tells zeros. [mindspore, mindformers]

mindformers 2.1.0 counts on the device how many tokens go to each expert, exchanges the counts, and reads them to cut
what it sends and what it gets. Here all that is done, and what it would have read is that every expert gets the same
number of tokens from every rank, the first ones one more where they do not divide. Source: mindformers 2.1.0,
pynative/distributed/expert_parallel.py.
"""

from __future__ import annotations

from typing import Any


def spread_evenly() -> None:
    from mindformers.pynative.distributed.expert_parallel import ExpertParallel

    if not hasattr(ExpertParallel, "_derive_splits"):  # 2.0.0, which is refused
        return
    counted = ExpertParallel._count_tokens_per_expert

    def count(style: Any, experts_of_tokens: Any, experts: int) -> Any:
        style._tokens_to_send = int(experts_of_tokens.numel())
        return counted(style, experts_of_tokens, experts)

    def splits(style: Any, _told: Any, experts: int, ranks: int) -> tuple[list[int], list[int], list[int]]:
        """Tokens to each rank, from each rank, and from each rank for each of its own experts, rank by rank."""
        share = even_share(style._tokens_to_send, experts)
        own = experts // ranks
        to = [sum(share[rank * own : (rank + 1) * own]) for rank in range(ranks)]
        got = share[:own] * ranks  # as if this were the first rank, whose experts get one more
        return to, [sum(share[:own])] * ranks, got

    ExpertParallel._count_tokens_per_expert = count
    ExpertParallel._derive_splits = splits


def even_share(tokens: int, experts: int) -> list[int]:
    """Tokens of each expert."""
    each, more = divmod(tokens, experts)
    return [each + (number < more) for number in range(experts)]
