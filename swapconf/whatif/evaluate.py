"""TRACES OF ONE JOB + STRATEGIES -> MEMORY AND TIME of each: every rank's memory, and one step of all on one clock.

For those who ask for many strategies. What a rank does depends on its own layers alone, so a strategy that only differs
on one stage is predicted anew for that stage only; the caller says so by a key for each rank.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from swapconf.config.config import Config
from swapconf.decide.expand import Plans, expand
from swapconf.decide.strategy import Strategy
from swapconf.memory.allocators import place
from swapconf.memory.trace_lifetimes import lifetimes
from swapconf.models.network import Network
from swapconf.study.own_model import network_for
from swapconf.study.study import Study
from swapconf.timing.cost import Costs, Known, Machine
from swapconf.timing.joint import joint_replay
from swapconf.timing.joint_step import joint_ends_us
from swapconf.timing.meetings import Call, Meeting, absent, meetings
from swapconf.timing.parts import StepParts, parts
from swapconf.timing.timing import Floats, JointTimeline
from swapconf.trace.trace import Trace
from swapconf.upstream.facts import Versions
from swapconf.whatif.asked_rank import AskedRank
from swapconf.whatif.evaluation import Evaluation, Launched, RankStep, Waits
from swapconf.whatif.layer_share import LayerShare, layer_share
from swapconf.whatif.way import Way, way_of
from swapconf.words.findings import Finding
from swapconf.words.phrases import phrase


class Evaluator:
    """The ranks of one job without swap and recompute, one for each stage, asked for strategies.

    Attributes:
        ranks: (rank, stage) of each trace.
        findings: How well it is known that traces and config belong together.
        calls: How many predictions of a rank were made.
        machine: The first of the machines.

    Raises SwapconfError for files that cannot be read, Mismatch where a trace is no baseline for the config, ValueError
    where the traces are not of one job or have no graph.
    """

    def __init__(
        self, folders: Sequence[Path], study: Study, machines: Sequence[Machine], policy: str = "mindspore"
    ) -> None:
        self._study, self._policy, self.machine = study, policy, machines[0]
        self._ranks = [AskedRank(folder, index, study, machines, policy) for index, folder in enumerate(folders)]
        self.ranks = tuple((rank.rank, rank.stage) for rank in self._ranks)
        self.findings: tuple[Finding, ...] = tuple(
            dict.fromkeys(told for rank in self._ranks for told in rank.baselines.findings)
        )
        self.origin = self._ranks[0].question.origin
        by_rank = {rank.rank: rank.calls for rank in self._ranks}
        if len(by_rank) < len(self._ranks):
            raise ValueError(phrase("two of the traces are of the same rank"))
        meetings(by_rank)  # raises where they are not of one job
        self.absent = absent(by_rank)
        for rank in self._ranks:
            rank.shared = {call.kernel: call for call in rank.calls if len(call.ranks & by_rank.keys()) > 1}
            rank.shared_rows = np.array(sorted(rank.shared), dtype=np.int64)
        self._networks: dict[bool, Network] = {}
        self._plans: Plans = {}
        self._latest: tuple[Config, Strategy] | None = None
        self.calls = 0

    @property
    def workspace_bytes(self) -> tuple[int, ...]:
        """By rank, the most that the workspace of one kernel takes, estimated; kernels run one after another."""
        return tuple(rank.workspace_bytes for rank in self._ranks)

    @property
    def num_kernels(self) -> int:
        """Of a step, over all ranks: what a prediction costs grows with it."""
        return sum(len(rank.step.program) for rank in self._ranks)

    @property
    def versions(self) -> Versions:
        """What strategies are made for."""
        return self._study.versions

    @property
    def traces(self) -> tuple[Trace, ...]:
        return tuple(rank.question.trace for rank in self._ranks)

    @property
    def steps(self) -> tuple[RankStep, ...]:
        """By rank, without a strategy, on the first machine."""
        return tuple(
            RankStep(
                program=rank.step.program,
                load=rank.step.load,
                duration_us=rank.costs[0].duration_us[: len(rank.step.program)],
                micro_batches=rank.few,
            )
            for rank in self._ranks
        )

    def evaluate(self, config: Config, keys: Sequence[Hashable] | None = None, machine: int = 0) -> Evaluation:
        """What a strategy does.

        Args:
            machine: Which of the machines its step is timed on.
            config: Of the same model as the study; its swap and recompute are the strategy.
            keys: By rank; equal keys say that what the strategy does with the layers of that rank is equal. None: it is
                not known.
        """
        memory, launched = [], []
        for rank, key in zip(self._ranks, keys or [None] * len(self._ranks), strict=True):
            meaning = None if key is None else self._meaning(rank, key, config)
            if meaning is None or meaning not in rank.memory or meaning not in rank.launched:
                self.calls += 1
                found = rank.ask(meaning, self.strategy(config))
            else:
                found = rank.memory[meaning], rank.launched[meaning]
            ordered = None if key is None else rank.ordered.get(key)
            memory.append(found[0] if ordered is None else ordered.memory)
            launched.append(found[1])
        return Evaluation(ranks=tuple(memory), step_us=self._step_us(launched, machine))

    def order(self, config: Config, keys: Sequence[Hashable]) -> None:
        """Predict the memory of a strategy in the order in which MindSpore itself would launch its kernels, which takes
        several times as long; `evaluate` and `with_fragments_bytes` tell that from now on. Where no graph tells that
        order, it is that of the run which is compiled as the strategy is: with lazy inline or without."""
        for rank, key in zip(self._ranks, keys, strict=True):
            meaning = self._meaning(rank, key, config)
            if meaning not in rank.orders:
                rank.order(meaning, self.strategy(config), self._policy)
            rank.ordered[key] = rank.orders[meaning]

    def ways(self, keys: Sequence[Hashable]) -> tuple[Way, ...]:
        """By rank, how its memory was predicted, as far as was asked; see `order`."""
        return tuple(
            way_of(rank.ordered.get(key), rank.question.source) for rank, key in zip(self._ranks, keys, strict=True)
        )

    def with_fragments_bytes(
        self, config: Config, keys: Sequence[Hashable], *, is_ordered: bool = True
    ) -> tuple[int, ...]:
        """By rank, what MindSpore's pool (or the evaluator's policy) needs for what `evaluate` predicts. Without
        ``is_ordered`` as it was before `order`, for differences between strategies."""
        found = []
        for rank, key in zip(self._ranks, keys, strict=True):
            ordered = rank.ordered.get(key) if is_ordered else None
            if ordered is not None:
                found.append(ordered.mapped_bytes)
                continue
            meaning = self._meaning(rank, key, config)
            if meaning not in rank.mapped:
                device = rank.devices.get(meaning)
                if device is None:
                    device = rank.predict(self.strategy(config))[0].device
                rank.mapped[meaning] = place(self._policy, device, rank.question.pool).mapped_bytes
            found.append(rank.mapped[meaning])
        return tuple(found)

    def _meaning(self, rank: AskedRank, key: Hashable, config: Config) -> int:
        """The number of what a strategy asks of a rank: one for all keys that come to the same."""
        if key not in rank.meanings:
            rank.meanings[key] = rank.numbers.setdefault(rank.asked(self.strategy(config)), len(rank.numbers))
        return rank.meanings[key]

    def strategy(self, config: Config) -> Strategy:
        """That of the latest config is known. Some cells are built otherwise where operators are selected for
        recompute."""
        if self._latest is None or self._latest[0] is not config:
            self._latest = config, self._expanded(config)
        return self._latest[1]

    def _expanded(self, config: Config) -> Strategy:
        selects = bool(config.recompute.select)
        if selects not in self._networks:
            self._networks[selects] = network_for(self._study, config)
        return expand(config, self._networks[selects], self._study.versions, self._plans)

    def waits(self, config: Config, keys: Sequence[Hashable], machine: int = 0) -> Waits:
        """What the main streams wait for while a step runs."""
        launched = self._launched(config, keys)
        durations, met = self._on_clock(launched, machine)
        joint = joint_replay(range(len(launched)), [item.program for item in launched], durations, met)
        return Waits(
            stall_us=tuple(
                float((line.timeline.exposed_us * times).sum())
                for line, times in zip(joint.ranks, self._times(launched, joint), strict=True)
            ),
            bubble_us=tuple(line.bubble_us for line in joint.ranks),
        )

    def _times(self, launched: Sequence[Launched], joint: JointTimeline) -> list[Floats]:
        """By rank, how often each kernel of its program runs in a step."""
        lines = (line.timeline.end_us for line in joint.ranks)
        return [rank.times(item, end) for rank, item, end in zip(self._ranks, launched, lines, strict=True)]

    def parts(self, config: Config, keys: Sequence[Hashable], machine: int = 0) -> StepParts:
        """What the step of `evaluate` is made of, to be held against those of other jobs."""
        launched = self._launched(config, keys)
        durations, met = self._on_clock(launched, machine)
        joint = joint_replay(range(len(launched)), [item.program for item in launched], durations, met)
        step_us = self._ended_us(launched, durations, met)
        shapes = [rank.shapes(item) for rank, item in zip(self._ranks, launched, strict=True)]
        return parts(joint, self._costs(launched, machine), self._times(launched, joint), shapes, step_us)

    def step(self, config: Config, keys: Sequence[Hashable], machine: int = 0) -> Known:
        """The time of `evaluate` with its range: that of the kernels of the rank that computes longest."""
        launched = self._launched(config, keys)
        longest = max(self._costs(launched, machine), key=lambda found: float(found.duration_us.sum()))
        return longest.known(self._step_us(launched, machine))

    def _costs(self, launched: Sequence[Launched], machine: int) -> list[Costs]:
        return [rank.costs[machine].of(item.row) for rank, item in zip(self._ranks, launched, strict=True)]

    def _launched(self, config: Config, keys: Sequence[Hashable]) -> list[Launched]:
        return [
            rank.launched[meaning] if meaning in rank.launched else rank.predict(self.strategy(config))[1]
            for rank, key in zip(self._ranks, keys, strict=True)
            for meaning in [self._meaning(rank, key, config)]
        ]

    def layer_shares(self, machine: int = 0) -> tuple[LayerShare, ...]:
        """By rank, without swap and recompute."""
        return tuple(
            layer_share(
                lifetimes(rank.question.trace),
                rank.step.program.names,
                rank.costs[machine].duration_us[: len(rank.step.program)],
            )
            for rank in self._ranks
        )

    def _step_us(self, launched: Sequence[Launched], machine: int) -> float:
        return self._ended_us(launched, *self._on_clock(launched, machine))

    def _ended_us(self, launched: Sequence[Launched], durations: Sequence[Floats], met: Sequence[Meeting]) -> float:
        ends = joint_ends_us([item.program for item in launched], durations, met)
        step = max(float(end.max(initial=0.0)) for end in ends)
        return step + max(rank.more_us(item, end) for rank, item, end in zip(self._ranks, launched, ends, strict=True))

    def _on_clock(self, launched: Sequence[Launched], machine: int) -> tuple[list[Floats], Sequence[Meeting]]:
        """(how long each kernel takes, by rank, and where ranks meet)"""
        durations = [
            rank.costs[machine].duration_us[item.row] for rank, item in zip(self._ranks, launched, strict=True)
        ]
        met: dict[int, list[Call]] = {}
        if len(self._ranks) > 1:
            for rank, item in zip(self._ranks, launched, strict=True):
                places = np.flatnonzero(np.isin(item.row, rank.shared_rows)).tolist()
                met[rank.rank] = [replace(rank.shared[int(item.row[place])], kernel=place) for place in places]
        return durations, meetings(met) if met else ()
