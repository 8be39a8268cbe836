"""NATIVE PLAN -> SCORE: what the PyNative what-if says of a plan, under a budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from swapconf.config.config import Config
from swapconf.dryrun.cluster import CARDS
from swapconf.dryrun.rank_order import cluster_of
from swapconf.plan.limits import Budget, Cards, Limits
from swapconf.plan.pynative.modes import NativePlan, config_of
from swapconf.study.study import Study
from swapconf.timing.cost import Machine
from swapconf.whatif.pynative.predict import NativePrediction
from swapconf.whatif.pynative.question import NativeMismatch, NativeQuestion
from swapconf.whatif.pynative.times import NativeTime, NativeTimes
from swapconf.words.phrases import phrase

_AN_ENTRY = 3e-5  # of the step: what one entry more has to be worth
_STAGE = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeScore:
    """A strategy as it is told. ``safe_bytes``: a used peak that the true dry run does not exceed. ``mapped_bytes``:
    with fragments, None where they are not known. ``host_bytes``: of the host that holds most. ``time``: with the
    slower link."""

    prediction: NativePrediction
    safe_bytes: int
    mapped_bytes: int | None
    host_bytes: int
    time: NativeTime
    fits: bool


@dataclass(frozen=True, kw_only=True)
class NativeJudge:
    """Plans under limits, each asked once.

    Attributes:
        base: The config that is planned for.
        paths: By layer, the modules that can run again.
        link_gbps: Of one card to its host, as told; ``slower_gbps``: as plans are judged by.
    """

    question: NativeQuestion = field(repr=False)
    times: NativeTimes = field(repr=False)
    base: Config = field(repr=False)
    paths: tuple[frozenset[str], ...]
    limits: Limits
    cards: Cards
    max_entries: int
    link_gbps: float
    slower_gbps: float
    _found: dict[NativePlan, NativePrediction] = field(default_factory=dict, repr=False)
    _safe: dict[NativePlan, int] = field(default_factory=dict, repr=False)
    _mapped: dict[NativePlan, int | None] = field(default_factory=dict, repr=False)
    _time: dict[NativePlan, NativeTime] = field(default_factory=dict, repr=False)

    @property
    def num_layers(self) -> int:
        return len(self.paths)

    @property
    def asked(self) -> int:
        """How many different plans were predicted."""
        return len(self._found)

    def config(self, plan: NativePlan) -> Config:
        return config_of(plan, self.base)

    def allows(self, plan: NativePlan) -> bool:
        """Whether a plan is short enough, and the what-if has an answer for it."""
        if len(plan.entries) > self.max_entries:
            return False
        try:
            self.question.parts(self.config(plan))
        except NativeMismatch:
            return False
        return True

    def prediction(self, plan: NativePlan) -> NativePrediction:
        if plan not in self._found:
            self._found[plan] = self.question.predict(self.config(plan))
        return self._found[plan]

    def safe_bytes(self, plan: NativePlan) -> int:
        """A used peak that the true dry run does not exceed."""
        if plan not in self._safe:
            self._safe[plan] = self.question.safe_peak_bytes(self.config(plan))
        return self._safe[plan]

    def mapped_bytes(self, plan: NativePlan) -> int | None:
        """With the fragments of the pool; None where they are not known."""
        if plan not in self._mapped:
            self._mapped[plan] = self._with_fragments(self.prediction(plan))
        return self._mapped[plan]

    def pool_bytes(self, plan: NativePlan) -> int:
        """What the pool takes at most, with fragments as far as they are known."""
        return max(self.safe_bytes(plan), self.mapped_bytes(plan) or 0)

    def time(self, plan: NativePlan) -> NativeTime:
        """With the slower link."""
        if plan not in self._time:
            self._time[plan] = self.times.time(self.question.parts(self.config(plan)), self.slower_gbps)
        return self._time[plan]

    def nominal(self, plan: NativePlan) -> NativeTime:
        """With the link as told."""
        return self.times.time(self.question.parts(self.config(plan)), self.link_gbps)

    def cost_us(self, plan: NativePlan) -> float:
        """The step, and a little for each entry."""
        return self.time(plan).step_us * (1 + _AN_ENTRY * len(plan.entries))

    def fits(self, plan: NativePlan) -> bool:
        """Asked in the order of what it takes to know it."""
        found, (most,) = self.prediction(plan), self.limits.pool_bytes
        return (
            found.used_peak_bytes <= most
            and self._fits_on_host(found)
            and self.safe_bytes(plan) <= most
            and self.pool_bytes(plan) <= most
        )

    def score(self, config: Config) -> NativeScore:
        """Of any strategy. Raises NativeMismatch where the what-if has no answer."""
        found, safe = self.question.predict(config), self.question.safe_peak_bytes(config)
        mapped = self._with_fragments(found)
        return NativeScore(
            prediction=found,
            safe_bytes=safe,
            mapped_bytes=mapped,
            host_bytes=self._host_bytes(found),
            time=self.times.time(self.question.parts(config), self.slower_gbps),
            fits=max(safe, mapped or 0) <= self.limits.pool_bytes[0] and self._fits_on_host(found),
        )

    def _with_fragments(self, found: NativePrediction) -> int | None:
        placed = self.question.placement(found)
        return None if placed is None else placed.mapped_bytes

    def _host_bytes(self, found: NativePrediction) -> int:
        return self.cards.host_bytes({_STAGE: found.host_peak_bytes})

    def _fits_on_host(self, found: NativePrediction) -> bool:
        most = self.limits.host_budget_bytes
        return most is None or self._host_bytes(found) <= most

    def needed_bytes(self, plan: NativePlan) -> int:
        """The least budget of a card that a plan fits in."""
        return self.limits.needed_bytes((self.pool_bytes(plan),))


def native_judge_of(
    study: Study,
    folder: Path,
    machine: Machine,
    budget: Budget,
    *,
    slower_link: float,
    max_entries: int,
    cards_per_host: int = CARDS,
) -> NativeJudge:
    """A judge of a PyNative YAML's strategies, from a trace without any. Raises SwapconfError for files that cannot be
    read, ValueError (NativeMismatch) where the trace is no baseline for the YAML."""
    question = NativeQuestion(folder, study)
    passes = [one for step in question.steps for one in step.passes]
    count = study.config.num_named_layers
    if count is None or {one.layer for one in passes} != set(range(count)):
        raise NativeMismatch(phrase("the layers of the trace are not those of the YAML"))
    cluster = cluster_of(study.document)
    link_gbps = machine.host.link_gbps(machine.hardware)
    told = [one for one in passes if one.module and one.turn is not None]
    return NativeJudge(
        question=question,
        times=NativeTimes(question.trace, question.layout, question.steps, machine),
        base=study.config,
        paths=tuple(frozenset(one.module for one in told if one.layer == layer) for layer in range(count)),
        limits=Limits(
            budget_bytes=budget.card_bytes,
            beside_bytes=budget.beside_bytes,
            workspace_bytes=(0,),
            host_budget_bytes=budget.host_bytes,
        ),
        cards=Cards(num_devices=cluster.num_devices, num_stages=1, per_host=cards_per_host),
        max_entries=max_entries,
        link_gbps=link_gbps,
        slower_gbps=link_gbps * (1 - slower_link),
    )
