"""PLAN -> SCORE: what the what-if says of a plan, under a budget. Everything that a search looks at comes from here.

Where MindSpore's pool puts blocks takes as long to find out as all the rest, so it is asked only of what could win; the
order in which MindSpore itself would launch the kernels takes several times as long, and is asked of what is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from swapconf.config.config import Config
from swapconf.decide.compact import compact
from swapconf.decide.expand import recompute_options
from swapconf.dryrun.cluster import CARDS
from swapconf.dryrun.rank_order import cluster_of
from swapconf.models.network import Network
from swapconf.plan import refused
from swapconf.plan.limits import Budget, Cards, Limits
from swapconf.plan.modes import KEEP, Atom, Mode, Plan, config_of, decoder_layers, entries, fitted, likeness, uniform
from swapconf.plan.refused import Refused
from swapconf.study.own_model import as_run
from swapconf.study.study import Study
from swapconf.timing.cost import Known, Machine
from swapconf.timing.parts import StepParts
from swapconf.whatif.evaluate import Evaluator
from swapconf.whatif.evaluation import Evaluation, Waits
from swapconf.whatif.way import Way
from swapconf.words.phrases import phrase

NOMINAL, SLOWER = range(2)  # machines of the evaluator: as told, and with a slower host link
NOISE = 0.001  # of a step: less is no difference
_AN_ENTRY = 3e-5  # of the step: what one entry more has to be worth while a search goes on


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """A plan that was asked for.

    Attributes:
        pool_bytes: By rank, with fragments; None where that was not worth asking, as it does not fit without them.
        over_bytes: What is too much on all ranks together and on the host, with what the plan is expected to need more
            in MindSpore's own order; 0 where it fits; an estimate where ``pool_bytes`` is None.
        used_over_bytes: The same without fragments.
    """

    plan: Plan
    found: Evaluation
    over_bytes: float
    used_over_bytes: float
    pool_bytes: tuple[int, ...] | None = None

    @property
    def fits(self) -> bool:
        return self.over_bytes == 0 and self.pool_bytes is not None and not self.found.crashes

    @property
    def entries(self) -> tuple[Atom, ...]:
        return entries(self.plan)

    @property
    def cost_us(self) -> float:
        """The step with the slower link, on which it never is faster, and a little for each entry."""
        return _cost_us(self.found, self.plan)

    @property
    def rank(self) -> tuple[bool, float, float, int]:
        """What fits comes first, then what is fastest; among what does not fit what is least over."""
        return not self.fits, self.over_bytes, self.cost_us, self.found.moved_bytes


def _cost_us(found: Evaluation, plan: Plan) -> float:
    return found.step_us * (1 + _AN_ENTRY * len(entries(plan)))


def _sum(sizes: Sequence[int], more: Sequence[float]) -> list[float]:
    return [size + extra for size, extra in zip(sizes, more, strict=True)]


class Judge:
    """Plans under limits, each asked once. ``known``: a judge of the same, whose evaluations and refusals it shares."""

    def __init__(
        self,
        evaluator: Evaluator,
        base: Config,
        network: Network,
        limits: Limits,
        cards: Cards,
        max_entries: int,
        known: Judge | None = None,
    ) -> None:
        self.evaluator, self.network, self.limits, self.max_entries = evaluator, network, limits, max_entries
        self.layers = decoder_layers(network)
        self.stages = tuple(
            tuple(layer.index for layer in self.layers if layer.stage == stage) for _, stage in evaluator.ranks
        )
        self.base, self._cards = base, cards
        self._scored: dict[Plan, Scored] = {}
        self._found: dict[Plan, Evaluation] = known._found if known is not None else {}
        self._settled: dict[Plan, tuple[int, ...]] = known._settled if known is not None else {}  # what is learned
        self.refused: frozenset[Refused] = (
            known.refused if known is not None else refused.known(base, network, evaluator.versions)
        )
        keep = uniform(KEEP, network)
        self._ratio = [pool / used for pool, used in zip(self.pool_bytes(keep), self.used_bytes(keep), strict=True)]

    @cached_property
    def warned_prefetch(self) -> int:
        """From which on `check` warns of a ``backward_prefetch``."""
        return int(self.evaluator.versions.fact("prefetch_worse_from").value)

    @property
    def asked(self) -> int:
        """How many different plans were evaluated, a measure of work that is the same on every machine."""
        return len(self._found)

    def under(self, limits: Limits) -> Judge:
        """The same under other limits; what was evaluated is known."""
        return Judge(self.evaluator, self.base, self.network, limits, self._cards, self.max_entries, self)

    def of(self, base: Config) -> Judge:
        """The same of another YAML for the same model; nothing is known of its plans."""
        made = Judge(self.evaluator, base, self.network, self.limits, self._cards, self.max_entries)
        made.refused |= self.refused
        return made

    def without(self, together: Refused) -> Judge:
        """The same, with one more set of entries that is not compiled."""
        made = self.under(self.limits)
        made.refused |= {together}
        return made

    def fitted(self, modes: Iterable[Mode]) -> Plan:
        """What the layers have of these modes, one for each."""
        return tuple(fitted(mode, layer.template) for mode, layer in zip(modes, self.layers, strict=True))

    def config(self, plan: Plan) -> Config:
        return config_of(plan, self.base)

    def written(self, plan: Plan) -> Config:
        """The same in as few entries as there can be, as the YAML says it. Raises CannotCompact."""
        config = self.config(plan)
        return compact(self.evaluator.strategy(config), config, self.evaluator.versions)

    def evaluation(self, plan: Plan) -> Evaluation:
        if plan not in self._found:
            self._found[plan] = self.evaluator.evaluate(*self._asked(plan), SLOWER)
        found = self._found[plan]
        return replace(found, is_refused=True) if refused.has(plan, self.refused) else found

    def settle(self, plan: Plan) -> None:
        """Ask for the memory of a plan in MindSpore's own order; see `Evaluator.order`. From now on plans like it are
        scored by what that tells."""
        if plan not in self._settled:
            self.evaluator.order(*self._asked(plan))
            pools, before = self.pool_bytes(plan), self.pool_bytes(plan, is_ordered=False)
            self._settled[plan] = tuple(max(pool - less, 0) for pool, less in zip(pools, before, strict=True))
            self._found.pop(plan, None)
            self._scored.clear()

    def is_settled(self, plan: Plan) -> bool:
        return plan in self._settled

    @property
    def settled(self) -> list[Plan]:
        """All that `settle` was asked for, in that order."""
        return list(self._settled)

    def ways(self, plan: Plan) -> tuple[Way, ...]:
        """By rank, how its memory is predicted."""
        return self.evaluator.ways(self._asked(plan)[1])

    def nominal(self, plan: Plan) -> Known:
        """The step with the link as told, and its range."""
        return self.evaluator.step(*self._asked(plan), NOMINAL)

    def parts(self, plan: Plan) -> StepParts:
        """What the step with the slower link is made of."""
        return self.evaluator.parts(*self._asked(plan), SLOWER)

    def waits(self, plan: Plan) -> Waits:
        """Of the step with the slower link."""
        return self.evaluator.waits(*self._asked(plan), SLOWER)

    def used_bytes(self, plan: Plan) -> tuple[int, ...]:
        """By rank, at the peak, without fragments."""
        return tuple(rank.used_peak_bytes for rank in self.evaluation(plan).ranks)

    def pool_bytes(self, plan: Plan, *, is_ordered: bool = True) -> tuple[int, ...]:
        """By rank, with fragments. Without ``is_ordered`` as it was before `settle`."""
        return self.evaluator.with_fragments_bytes(*self._asked(plan), is_ordered=is_ordered)

    def score(self, plan: Plan, better_than: Scored | None = None) -> Scored:
        """``better_than``: where the plan is slower than this one, which fits, it is not asked whether it fits."""
        known = self._scored.get(plan)
        if known is not None and (known.pool_bytes is not None or known.over_bytes):
            return known
        found = self.evaluation(plan)
        used = self.used_bytes(plan)
        host = self.host_over_bytes(found)
        over = self.limits.over_bytes(used) + host
        guess = Scored(
            plan=plan, found=found, used_over_bytes=over, over_bytes=self._guessed(used) + host if over else 0.0
        )
        if guess.over_bytes or found.crashes:
            self._scored[plan] = guess
            return guess
        if better_than is not None and better_than.fits and guess.cost_us >= better_than.cost_us:
            return guess
        more = self._expected(plan)
        guess = replace(guess, over_bytes=self.limits.over_bytes(_sum(used, more)))
        if not guess.over_bytes:
            pools = self.pool_bytes(plan)
            guess = replace(guess, pool_bytes=pools, over_bytes=self.limits.over_bytes(_sum(pools, more)))
        self._scored[plan] = guess
        return guess

    def anew(self, plan: Plan) -> Scored:
        """Its score by what is known now: a stage may have been settled with another plan that asks the same of it."""
        self._found.pop(plan, None)
        self._scored.pop(plan, None)
        return self.score(plan)

    def scored_again(self, item: Scored) -> Scored:
        """By what was learned since; what was not placed is not placed."""
        return item if item.pool_bytes is None else self.score(item.plan)

    def _expected(self, plan: Plan) -> tuple[float, ...]:
        """By rank, how much more a plan is expected to need in MindSpore's own order: as the settled plan that is most
        like it where they are alike in everything, nothing where they are in half."""
        if plan in self._settled or not any(map(any, self._settled.values())):
            return (0.0,) * len(self.stages)
        like, more = max((likeness(plan, other), more) for other, more in self._settled.items())
        return tuple(max(2 * like - 1, 0.0) * size for size in more)

    def cost_us(self, plan: Plan) -> float:
        """That of its score, without asking whether it fits."""
        return _cost_us(self.evaluation(plan), plan)

    def stage_fits(self, plan: Plan) -> list[bool]:
        """By rank, whether it fits."""
        could = [size <= most for size, most in zip(self.used_bytes(plan), self.limits.pool_bytes, strict=True)]
        if not any(could):
            return could
        return [size <= most for size, most in zip(self.pool_bytes(plan), self.limits.pool_bytes, strict=True)]

    def allows(self, plan: Plan) -> bool:
        return len(entries(plan)) <= self.max_entries

    def host_bytes(self, found: Evaluation) -> int:
        """Of the host that holds most."""
        stages = (stage for _, stage in self.evaluator.ranks)
        return self._cards.host_bytes({s: rank.host_peak_bytes for s, rank in zip(stages, found.ranks, strict=True)})

    @property
    def seen(self) -> list[Plan]:
        """All that was evaluated, under whatever limits; what is settled is evaluated anew when it is looked at."""
        return list(dict.fromkeys([*self._found, *self._settled]))

    def _guessed(self, used: Sequence[int]) -> float:
        """What does not fit without fragments is over by about what it needs with them."""
        return self.limits.over_bytes([size * ratio for size, ratio in zip(used, self._ratio, strict=True)])

    def host_over_bytes(self, found: Evaluation) -> float:
        """By how much the host that holds most is over its budget."""
        most = self.limits.host_budget_bytes
        return 0.0 if most is None else max(0.0, self.host_bytes(found) - most)

    def _asked(self, plan: Plan) -> tuple[Config, Sequence[object]]:
        """The plan, and by rank what tells it from others there: what a rank does depends on its own layers, on whether
        operators are selected anywhere, on how recompute is asked for, and on whether swap is on, as layers are inlined
        otherwise then."""
        config = self.config(plan)
        selects = any(atom.kind == "recompute" and atom.path for mode in plan for atom in mode)
        common = config.swap_on, selects, *recompute_options(config).items()
        return config, [(*common, tuple(plan[index] for index in mine)) for mine in self.stages]


def judge_of(
    study: Study,
    folders: Sequence[Path],
    machine: Machine,
    budget: Budget,
    *,
    slower_link: float,
    max_entries: int,
    cards_per_host: int = CARDS,
    policy: str = "mindspore",
) -> Judge:
    """A judge of a YAML's strategies, from traces without swap and recompute, one of each stage. Raises SwapconfError
    for files that cannot be read, ValueError (Mismatch) where the traces are no baselines for the YAML or a stage has
    none."""
    if folders:
        study = as_run(study, folders[0])
    slower = machine.hardware.value("host_link_gbps") * (1 - slower_link)
    slow = replace(machine, hardware=machine.hardware.having("host_link_gbps", slower, "--slower-link"))
    evaluator = Evaluator(folders, study, [machine, slow], policy)
    cluster = cluster_of(study.document)
    lacking = sorted(set(range(cluster.num_stages)) - {stage for _, stage in evaluator.ranks})
    if lacking:
        raise ValueError(
            phrase(
                "there is no trace of stage {stages}; a plan needs one of each stage",
                stages=", ".join(map(str, lacking)),
            )
        )
    assert study.network is not None
    return Judge(
        evaluator,
        study.config,
        study.network,
        Limits(
            budget_bytes=budget.card_bytes,
            beside_bytes=budget.beside_bytes,
            workspace_bytes=evaluator.workspace_bytes,
            host_budget_bytes=budget.host_bytes,
        ),
        Cards(num_devices=cluster.num_devices, num_stages=cluster.num_stages, per_host=cards_per_host),
        max_entries,
    )
