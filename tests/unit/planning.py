"""Judges of plans: on a real trace of two layers, and on costs that are made up, so that all plans can be tried."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from swapconf.config.config import Config, Pipeline
from swapconf.models.network import Network
from swapconf.plan.judge import SLOWER, Judge
from swapconf.plan.limits import Cards, Limits
from swapconf.plan.modes import Mode
from swapconf.study.study import Study
from swapconf.timing import hardware
from swapconf.timing.cost import Known, Machine
from swapconf.upstream.facts import Versions
from swapconf.upstream.launch_orders import Order
from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.whatif.evaluate import Evaluator
from swapconf.whatif.evaluation import Evaluation, RankMemory
from swapconf.whatif.layer_share import LayerShare
from swapconf.whatif.way import Source, Way
from tests.helpers import TRACES, study_of
from tests.unit.networks import config, network

EVERYTHING = 1 << 60


def machines() -> list[Machine]:
    card = hardware.load("ascend_910b2")
    return [
        Machine(hardware=item)
        for item in (card, card.having("host_link_gbps", 0.7 * card.value("host_link_gbps"), "a slower link"))
    ]


@cache
def study() -> Study:
    """Of the trace llama_l2_none."""
    return study_of(TRACES / "llama.yaml", "model.model_config.num_layers=2")


class _Remembering(Evaluator):
    """Tests ask the same plans under many budgets; how often a judge asks stays as it is."""

    def evaluate(self, config: Config, keys: Sequence[Hashable] | None = None, machine: int = 0) -> Evaluation:
        if keys is None:
            return super().evaluate(config, keys, machine)
        asked = (*keys, machine)
        if asked not in _REMEMBERED:
            _REMEMBERED[asked] = super().evaluate(config, keys, machine)
        return _REMEMBERED[asked]


_REMEMBERED: dict[tuple[Hashable, ...], Evaluation] = {}


@cache
def evaluator() -> Evaluator:
    return _Remembering([TRACES / "llama_l2_none"], study(), machines())


def real_judge(budget_bytes: int = EVERYTHING, max_entries: int = 6, host_budget_bytes: int | None = None) -> Judge:
    """One that has been asked nothing but what a judge asks itself."""
    network = study().network
    assert network is not None
    limits = Limits(
        budget_bytes=budget_bytes, workspace_bytes=evaluator().workspace_bytes, host_budget_bytes=host_budget_bytes
    )
    return Judge(
        evaluator(), study().config, network, limits, Cards(num_devices=8, num_stages=1, per_host=8), max_entries
    )


def spread(text: object, most: int) -> int:
    """A number below ``most`` that looks like chance, the same in every process."""
    value = 7
    for letter in str(text):
        value = (value * 31 + ord(letter)) % 1_000_003
    return value % most


@cache
def of_mode(mode: Mode) -> tuple[int, int, int]:
    """(bytes that it saves of 1000, time that it adds, bytes that it moves), made up from its atoms."""
    saved, added, moved = 0, 0, 0
    for atom in sorted(mode):
        size = 600 if not atom.path else 60 + spread(atom.path, 200)
        saved += size
        if atom.kind == "swap":
            moved += size
            added += size // 3 // max(1, 20 // atom.prefetch) if atom.prefetch < 50 else 20
        else:
            added += 30 + size // 8
    return min(saved, 900), added, min(moved, 900)


@dataclass
class MadeUp:
    """An evaluator whose ranks hold and take what `of_mode` says of their layers.

    Attributes:
        fragments: (rank, keys of its layers) -> bytes beside those in use.
        more: (rank, keys of its layers) -> bytes that the true order of launches takes besides.
        asked: Evaluations that were asked for; ``ordered``: what was asked for in the true order, by rank and key.
    """

    num_stages: int
    fragments: Callable[[int, Hashable], int] | None = None
    more: Callable[[int, Hashable], int] = lambda rank, key: 0
    asked: list[tuple[Hashable, ...]] = field(default_factory=list)
    ordered: set[tuple[int, Hashable]] = field(default_factory=set)

    @property
    def ranks(self) -> tuple[tuple[int, int], ...]:
        return tuple((4 * stage, stage) for stage in range(self.num_stages))

    @property
    def workspace_bytes(self) -> tuple[int, ...]:
        return tuple(10 + stage for stage in range(self.num_stages))

    @property
    def num_kernels(self) -> int:
        return 1000

    @property
    def versions(self) -> Versions:
        return Versions()

    def layer_shares(self, machine: int = 0) -> tuple[LayerShare, ...]:
        """The last stage has the head and the loss, too."""
        return tuple(
            LayerShare(
                num_layers=2,
                layer_bytes=300.0 * (self.num_stages - stage),
                layer_us=1.0,
                busy_us=10_000.0 + 50.0 * stage,
            )
            for stage in range(self.num_stages)
        )

    def evaluate(self, config: Config, keys: Sequence[Hashable], machine: int = 0) -> Evaluation:
        self.asked.append(tuple(keys))
        ranks, steps = [], []
        for stage, key in enumerate(keys):
            parts = [of_mode(mode) for mode in _modes(key)]
            held = 1000 + 300 * (self.num_stages - stage)  # the first stages hold more micro-batches
            moved = sum(part[2] for part in parts)
            ranks.append(
                RankMemory(
                    used_peak_bytes=1000
                    + sum(held * (1000 - part[0]) // 1000 for part in parts)
                    + (self.more(stage, key) if (stage, key) in self.ordered else 0),
                    host_peak_bytes=moved,
                    moved_bytes=moved,
                    recomputed=0,
                    crashes=any(atom.prefetch == 1 for mode in _modes(key) for atom in mode),
                )
            )
            slow = 1.4 if machine == SLOWER else 1.0
            steps.append(10_000 + sum(part[1] for part in parts) + slow * max(0, moved - 400) / 5)
        return Evaluation(ranks=tuple(ranks), step_us=max(steps))

    def step(self, config: Config, keys: Sequence[Hashable], machine: int = 0) -> Known:
        found_us = self.evaluate(config, keys, machine).step_us
        return Known(us=found_us, low_us=found_us, high_us=found_us, share={})

    def ways(self, keys: Sequence[Hashable]) -> tuple[Way, ...]:
        """With fused kernels, of which MindSpore's own order is not known."""
        source = Source(mindspore="2.9.0", level=FUSED_LEVEL, has_graph=False, is_grown=False, making="")
        return (Way(Order.RUN, source),) * len(keys)

    def order(self, config: Config, keys: Sequence[Hashable]) -> None:
        self.ordered |= set(enumerate(keys))

    def with_fragments_bytes(
        self, config: Config, keys: Sequence[Hashable], *, is_ordered: bool = True
    ) -> tuple[int, ...]:
        found, more = self.evaluate(config, keys), self.fragments or _by_chance
        added = [self.more(*item) if item in self.ordered and not is_ordered else 0 for item in enumerate(keys)]
        return tuple(
            rank.used_peak_bytes - added[stage] + more(stage, keys[stage]) for stage, rank in enumerate(found.ranks)
        )


def _modes(key: Any) -> Sequence[Mode]:
    modes: Sequence[Mode] = key[-1]
    return modes


def _by_chance(rank: int, key: Hashable) -> int:
    return _fragments(rank, tuple(_modes(key)))


@cache
def _fragments(rank: int, modes: tuple[Mode, ...]) -> int:
    return spread((rank, [_name(mode) for mode in modes]), 120)


@cache
def _name(mode: Mode) -> int:
    return spread(sorted(mode), 99_991)


def made_up_judge(
    num_layers: int,
    num_stages: int = 1,
    budget_bytes: int = EVERYTHING,
    max_entries: int = 6,
    host_budget_bytes: int | None = None,
    evaluator: MadeUp | None = None,
) -> Judge:
    made: Any = evaluator or MadeUp(num_stages)
    layers: Network = network(num_layers, pipeline=Pipeline(num_stages=num_stages))
    return Judge(
        made,
        config(num_layers),
        layers,
        Limits(budget_bytes=budget_bytes, workspace_bytes=made.workspace_bytes, host_budget_bytes=host_budget_bytes),
        Cards(num_devices=num_stages, num_stages=num_stages, per_host=8),
        max_entries,
    )
