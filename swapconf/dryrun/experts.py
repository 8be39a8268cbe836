"""What mindformers' own simulation of experts asks of a YAML, and a training does not. [mindspore, mindformers]

How many tokens each expert gets is read from tensors, which hold nothing under simulation. mindformers 1.9.0 takes all
experts for equally busy then, and refuses a sequence length that the number of experts does not divide
(``TransformerConfig.__post_init__``, ``MoEAlltoAllTokenDispatcher.preprocess_with_dryrun``). Here the first experts of
each rank get one token more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

_SIMULATION = "MS_SIMULATION_LEVEL"
_DISPATCHERS = ("alltoall", "alltoall_deredundency")  # for others mindformers has no simulation
_DISPATCHER = "mindformers.parallel_core.training_graph.transformer.moe.token_dispatcher"


def take_any_sequence() -> None:
    """From now on, in this process."""
    if find_spec("mindformers.parallel_core") is None or find_spec(_DISPATCHER) is None:
        return
    import mindspore
    from mindformers.parallel_core.training_graph.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher
    from mindformers.parallel_core.transformer_config import TransformerConfig
    from mindspore import Tensor, constexpr

    evenly = getattr(MoEAlltoAllTokenDispatcher, "preprocess_with_dryrun", None)
    if evenly is None:
        return
    check, counted = TransformerConfig.__post_init__, constexpr(counts)

    def check_as_in_a_training(config: Any) -> None:
        if getattr(config, "moe_token_dispatcher_type", "") not in _DISPATCHERS:
            check(config)
            return
        with _unsimulated():
            check(config)
        config.is_dryrun = True

    def preprocess(self, permuted_input):  # type: ignore[no-untyped-def]  # MindSpore compiles it
        if permuted_input.shape[1] % self.expert_num == 0:
            return evenly(self, permuted_input)
        found = counted(permuted_input.shape[1], self.expert_num, self.ep)
        return (Tensor(found[0], mindspore.int64), Tensor(found[1], mindspore.int64), Tensor(found[2], mindspore.int64))

    TransformerConfig.__post_init__ = check_as_in_a_training
    MoEAlltoAllTokenDispatcher.preprocess_with_dryrun = preprocess


def counts(tokens: int, experts: int, ranks: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(where the tokens of each expert of this rank end, how many tokens are sent to each rank, and received from it).
    ``tokens``: of one rank, each as often as it has experts. What the number of ranks does not divide is sent to the
    first."""
    each, more = divmod(tokens // ranks, experts // ranks)
    own = [each + (number < more) for number in range(experts // ranks)]
    sent = [sum(own)] * ranks
    received = tuple(sent)
    sent[0] += tokens - sum(sent)
    return tuple(accumulate(ranks * count for count in own)), tuple(sent), received


@contextlib.contextmanager
def _unsimulated() -> Iterator[None]:
    level = os.environ.pop(_SIMULATION, None)
    try:
        yield
    finally:
        if level is not None:
            os.environ[_SIMULATION] = level
