"""NATIVE PLAN -> SCORE: what the PyNative what-if says of a plan, under a budget.

A pipeline has a trace of each stage, and a budget holds on each; its step takes as long as its slowest stage computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from swapconf.config.config import Config
from swapconf.dryrun.cluster import CARDS
from swapconf.dryrun.rank_order import cluster_of
from swapconf.memory.advice import STATE
from swapconf.memory.holders import peak
from swapconf.plan.limits import Budget, Cards, Limits
from swapconf.plan.pynative.modes import NativePlan, config_of
from swapconf.plan.pynative.scores import NativeScore, NativeStage, StageScore, slowest
from swapconf.study.study import Study
from swapconf.timing.cost import Machine
from swapconf.whatif.pynative.predict import NativePrediction
from swapconf.whatif.pynative.question import NativeMismatch, NativeQuestion
from swapconf.whatif.pynative.times import NativeTime, NativeTimes
from swapconf.words.phrases import phrase

_AN_ENTRY = 3e-5  # of the step: what one entry more has to be worth


@dataclass(frozen=True, kw_only=True)
class NativeJudge:
    """Plans under limits, each asked once.

    Attributes:
        base: The config that is planned for.
        paths: By layer, the modules that can run again.
        link_gbps: Of one card to its host, as told; ``slower_gbps``: as plans are judged by.
        most_used_bytes: By stage, what a plan may use without fragments; None where true runs taught nothing of it.
    """

    stages: tuple[NativeStage, ...] = field(repr=False)
    base: Config = field(repr=False)
    paths: tuple[frozenset[str], ...]
    limits: Limits
    cards: Cards
    max_entries: int
    link_gbps: float
    slower_gbps: float
    most_used_bytes: tuple[int, ...] | None = None
    _found: dict[NativePlan, tuple[NativePrediction, ...]] = field(default_factory=dict, repr=False)
    _safe: dict[NativePlan, tuple[int, ...]] = field(default_factory=dict, repr=False)
    _mapped: dict[NativePlan, tuple[int | None, ...]] = field(default_factory=dict, repr=False)
    _time: dict[NativePlan, NativeTime] = field(default_factory=dict, repr=False)

    @property
    def num_layers(self) -> int:
        return len(self.paths)

    @cached_property
    def is_out_of_reach(self) -> bool:
        """Whether weights, optimizer state and gradients alone are too much at a moment when layers keep nothing: then
        no plan fits."""
        rests = (peak(stage.question.trace).rest for stage in self.stages)
        return not _are_within((rest.bytes_of(*STATE) for rest in rests), self.limits.pool_bytes)

    @property
    def asked(self) -> int:
        """How many different plans were predicted."""
        return len(self._found)

    @property
    def launches_blocked(self) -> bool:
        return all(stage.question.launches_blocked for stage in self.stages)

    def under(self, budget_bytes: int) -> NativeJudge:
        """The same under another budget, whatever a card has left beside what else it holds; what was predicted is
        known. What a plan may use by what true runs taught holds up to the budget that they were made for."""
        most = self.most_used_bytes if budget_bytes <= self.limits.usable_bytes else None
        return replace(
            self, limits=replace(self.limits, budget_bytes=budget_bytes, room_bytes=None), most_used_bytes=most
        )

    def config(self, plan: NativePlan) -> Config:
        return config_of(plan, self.base)

    def allows(self, plan: NativePlan) -> bool:
        """Whether a plan is short enough, and the what-if has an answer for it."""
        if len(plan.entries) > self.max_entries:
            return False
        try:
            for stage in self.stages:
                stage.question.parts(self.config(plan))
        except NativeMismatch:
            return False
        return True

    def predictions(self, plan: NativePlan) -> tuple[NativePrediction, ...]:
        """Of a rank of each stage."""
        if plan not in self._found:
            config = self.config(plan)
            self._found[plan] = tuple(stage.question.predict(config) for stage in self.stages)
        return self._found[plan]

    def used_bytes(self, plan: NativePlan) -> int:
        """Of the rank that holds most."""
        return max(one.used_peak_bytes for one in self.predictions(plan))

    def moved_bytes(self, plan: NativePlan) -> int:
        """In a step, of a rank of each stage."""
        return sum(sum(one.moved_bytes.values()) for one in self.predictions(plan))

    def host_bytes(self, plan: NativePlan) -> int:
        """Of the host that holds most."""
        return self._host_bytes(self.predictions(plan))

    def safe_bytes(self, plan: NativePlan) -> tuple[int, ...]:
        """By stage, a used peak that the true dry run does not exceed."""
        if plan not in self._safe:
            config = self.config(plan)
            self._safe[plan] = tuple(stage.question.safe_peak_bytes(config) for stage in self.stages)
        return self._safe[plan]

    def mapped_bytes(self, plan: NativePlan) -> tuple[int | None, ...]:
        """By stage, with the fragments of the pool; None where they are not known."""
        if plan not in self._mapped:
            found = zip(self.stages, self.predictions(plan), strict=True)
            self._mapped[plan] = tuple(_with_fragments(stage, one) for stage, one in found)
        return self._mapped[plan]

    def pool_bytes(self, plan: NativePlan) -> tuple[int, ...]:
        """By stage, what the pool takes at most, with fragments as far as they are known."""
        both = zip(self.safe_bytes(plan), self.mapped_bytes(plan), strict=True)
        return tuple(max(safe, mapped or 0) for safe, mapped in both)

    def time(self, plan: NativePlan) -> NativeTime:
        """With the slower link."""
        if plan not in self._time:
            self._time[plan] = self._at(self.config(plan), self.slower_gbps)
        return self._time[plan]

    def nominal(self, plan: NativePlan) -> NativeTime:
        """With the link as told."""
        return self._at(self.config(plan), self.link_gbps)

    def _at(self, config: Config, gbps: float) -> NativeTime:
        return slowest(stage.times.time(stage.question.parts(config), gbps) for stage in self.stages)

    def range_us(self, step_us: float) -> tuple[float, float]:
        """What a step may take that is estimated so."""
        return self.stages[0].times.range_us(step_us)

    def cost_us(self, plan: NativePlan) -> float:
        """The step, and a little for each entry."""
        return self.time(plan).step_us * (1 + _AN_ENTRY * len(plan.entries))

    def fits(self, plan: NativePlan) -> bool:
        """Asked in the order of what it takes to know it."""
        most = self.limits.pool_bytes
        return (
            self.could_fit(plan)
            and self._fits_on_host(self.predictions(plan))
            and _are_within(self.safe_bytes(plan), most)
            and _are_within(self.pool_bytes(plan), most)
        )

    def could_fit(self, plan: NativePlan) -> bool:
        """Whether what it uses is not too much. The more is recomputed or swapped the less that is, which bound,
        fragments and the host are not."""
        found, most = self.predictions(plan), self.limits.pool_bytes
        return _are_within((one.used_peak_bytes for one in found), most) and _are_within(
            (one.used_peak_bytes for one in found), self.most_used_bytes or most
        )

    def score(self, config: Config) -> NativeScore:
        """Of any strategy. Raises NativeMismatch where the what-if has no answer."""
        scores = tuple(self._score(stage, config) for stage in self.stages)
        found = [one.prediction for one in scores]
        fits = _are_within((one.pool_bytes for one in scores), self.limits.pool_bytes)
        return NativeScore(stages=scores, host_bytes=self._host_bytes(found), fits=fits and self._fits_on_host(found))

    def _score(self, stage: NativeStage, config: Config) -> StageScore:
        found = stage.question.predict(config)
        return StageScore(
            rank=stage.rank,
            prediction=found,
            safe_bytes=stage.question.safe_peak_bytes(config),
            mapped_bytes=_with_fragments(stage, found),
            time=stage.times.time(stage.question.parts(config), self.slower_gbps),
        )

    def _host_bytes(self, found: Sequence[NativePrediction]) -> int:
        return self.cards.host_bytes({number: one.host_peak_bytes for number, one in enumerate(found)})

    def _fits_on_host(self, found: Sequence[NativePrediction]) -> bool:
        most = self.limits.host_budget_bytes
        return most is None or self._host_bytes(found) <= most

    def needed_bytes(self, plan: NativePlan) -> int:
        """The least budget of a card that a plan fits in."""
        return self.limits.needed_bytes(self.pool_bytes(plan))


def _are_within(sizes: Iterable[int], most: Sequence[int]) -> bool:
    return all(size <= limit for size, limit in zip(sizes, most, strict=True))


def _with_fragments(stage: NativeStage, found: NativePrediction) -> int | None:
    placed = stage.question.placement(found)
    return None if placed is None else placed.mapped_bytes


def native_judge_of(
    study: Study,
    folders: Sequence[Path],
    machine: Machine,
    budget: Budget,
    *,
    slower_link: float,
    max_entries: int,
    cards_per_host: int = CARDS,
) -> NativeJudge:
    """A judge of a PyNative YAML's strategies, from traces without any. ``folders``: of the first rank of each stage,
    or of any rank where there is one stage. Raises SwapconfError for files that cannot be read, ValueError
    (NativeMismatch) where the traces are no baseline for the YAML."""
    cluster = cluster_of(study.document)
    ranks = cluster.first_ranks()
    questions = [NativeQuestion(folder, study) for folder in _of_stages(folders, ranks)]
    passes = [one for question in questions for step in question.steps for one in step.passes]
    count = study.config.num_named_layers
    if count is None or {one.layer for one in passes} != set(range(count)):
        raise NativeMismatch(phrase("the layers of the trace are not those of the YAML"))
    link_gbps = machine.host.link_gbps(machine.hardware)
    told = [one for one in passes if one.module and one.turn is not None]
    return NativeJudge(
        stages=tuple(
            NativeStage(rank=rank, question=one, times=NativeTimes(one.trace, one.layout, one.steps, machine))
            for rank, one in zip(ranks, questions, strict=True)
        ),
        base=study.config,
        paths=tuple(frozenset(one.module for one in told if one.layer == layer) for layer in range(count)),
        limits=Limits(
            budget_bytes=budget.card_bytes,
            beside_bytes=budget.beside_bytes,
            workspace_bytes=(0,) * len(questions),
            host_budget_bytes=budget.host_bytes,
        ),
        cards=Cards(num_devices=cluster.num_devices, num_stages=len(questions), per_host=cards_per_host),
        max_entries=max_entries,
        link_gbps=link_gbps,
        slower_gbps=link_gbps * (1 - slower_link),
    )


def _of_stages(folders: Sequence[Path], ranks: Sequence[int]) -> list[Path]:
    """The folder of each of these ranks. Raises NativeMismatch where one is missing."""
    if len(ranks) == 1:
        return [folders[0]]
    known = {folder.name: folder for folder in folders}
    missing = [rank for rank in ranks if f"rank_{rank}" not in known]
    if missing:
        raise NativeMismatch(
            phrase(
                "a plan of a pipeline takes a trace of each stage, and there is none of rank {rank}; "
                "`swapconf dryrun --ranks stages --launch-blocking` makes them",
                rank=missing[0],
            )
        )
    return [known[f"rank_{rank}"] for rank in ranks]
