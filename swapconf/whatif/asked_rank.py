"""TRACE + STRATEGIES -> ONE RANK of a job: what each strategy makes of its memory and its launches, remembered."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from swapconf.decide.recomputed_inputs import stops
from swapconf.decide.strategy import Strategy
from swapconf.memory import with_workspace
from swapconf.memory.allocators import place
from swapconf.models.network import LayerTemplate, Network
from swapconf.study.card import card_of
from swapconf.study.study import Study
from swapconf.timing.cost import Costs, Machine
from swapconf.timing.meetings import Call
from swapconf.timing.parts import Shapes
from swapconf.timing.steady import rounds
from swapconf.timing.timing import Floats
from swapconf.trace import run_record
from swapconf.trace.columns import Ints
from swapconf.trace.lifetimes import Lifetimes
from swapconf.whatif import baseline_step
from swapconf.whatif.evaluation import Launched, Ordered, RankMemory
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.inlined import RULE, is_turned_by_swap, swap_on_beside
from swapconf.whatif.latest import Latest
from swapconf.whatif.one_step import OneStep, one_step
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.predict import prediction, schedule
from swapconf.whatif.predicted_program import predicted_program
from swapconf.whatif.prediction import Prediction
from swapconf.whatif.question import Question
from swapconf.words.findings import Finding

_PROGRAMS, _DEVICES = 64, 4  # of the latest answers of a rank that are kept whole


class AskedRank:
    """One trace, and what was asked of it so far, by the number of its meaning."""

    def __init__(self, folder: Path, index: int, study: Study, machines: Sequence[Machine], policy: str) -> None:
        self.baselines = RankBaselines(folder, study, policy, machines[0])
        self.question = self.baselines.question
        self._card, self._study = card_of(machines[0], study.config), study
        report = run_record.report(folder)
        self.rank: int = report.get("rank", index)
        self.stage: int = report.get("stage", index)
        assert self.question.clock is not None
        self.step = self.question.clock.step
        self.costs: list[Costs] = [
            self.question.clock.costs,
            *(baseline_step.table(self.step, item.hardware, item.host, item.measured) for item in machines[1:]),
        ]
        self.calls = self.step.calls(self.rank)
        self.shared: dict[int, Call] = {}
        self.shared_rows: Ints = np.zeros(0, dtype=np.int64)
        self.few, self._count = run_record.micro_batches(folder)
        self._first, self._second = rounds(self.step.program.names, self.few if self.few < self._count else 0)
        self.meanings: dict[Hashable, int] = {}  # by key
        self.numbers: dict[Hashable, int] = {}  # by `asked`
        self.memory: dict[int, RankMemory] = {}
        self.mapped: dict[int, int] = {}
        self.orders: dict[int, Ordered | None] = {}  # None where nothing tells more than `predict`
        self.ordered: dict[Hashable, Ordered | None] = {}  # by key: of those that `order` was asked for
        self.launched: Latest[int, Launched] = Latest(_PROGRAMS)
        self.devices: Latest[int, Lifetimes] = Latest(_DEVICES)

    @property
    def workspace_bytes(self) -> int:
        return int(with_workspace.workspace(self.question.trace, self._card).size_bytes.max(initial=0))

    def asked(self, strategy: Strategy) -> Hashable:
        """What a strategy asks of this rank: equal for those that come to the same."""
        plans = self.baselines.prepared(strategy.network).plans(strategy)
        return strategy.network.templates, strategy.options, tuple(plan.meaning for plan in plans)

    def ask(self, meaning: int | None, strategy: Strategy) -> tuple[RankMemory, Launched]:
        found, launched = self.predict(strategy)
        memory = self._memory(found, strategy)
        if meaning is not None:
            self.memory[meaning], self.launched[meaning], self.devices[meaning] = memory, launched, found.device
        return memory, launched

    def order(self, meaning: int, strategy: Strategy, policy: str) -> None:
        asked, graphed = self.baselines.asked(strategy), self.baselines.graphed(strategy)
        if graphed.run is None and asked is self.question:
            self.orders[meaning] = None  # `predict` tells the same
            return
        found = graphed.predict(strategy)
        mapped = place(policy, found.device, asked.pool).mapped_bytes
        self.orders[meaning] = Ordered(memory=self._memory(found, strategy), mapped_bytes=mapped, order=found.order)

    def _memory(self, found: Prediction, strategy: Strategy) -> RankMemory:
        """By what `check` says of a strategy, too."""
        memory = RankMemory.of(found)
        if self._study.config.runtime.stand_alone:
            return memory
        is_stopped = any(stop.stage == self.stage for stop in stops(strategy, self._study.versions))
        return replace(memory, crashes=True) if is_stopped else memory

    def predict(self, strategy: Strategy) -> tuple[Prediction, Launched]:
        prepared, one = self.baselines.prepared(strategy.network), self.baselines.one_step(strategy.network)
        planned = schedule(one.prepared if one is not None else prepared, strategy)
        found = prediction(prepared, one.repeated(planned) if one is not None else planned)
        made = predicted_program(one.step if one is not None else self.step, planned, found.moves)
        return found, Launched(program=made.program, row=made.row)

    def more_us(self, launched: Launched, ends_us: Floats) -> float:
        """What the micro-batches take that the trace lacks; see timing/steady.py."""
        if not len(self._first):
            return 0.0
        first, second = self._bounds(launched)
        return (self._count - self.few) * float(np.median(ends_us[second] - ends_us[first]))

    def times(self, launched: Launched, ends_us: Floats) -> Floats:
        """[n] how often each kernel of the program runs in a step: those of one round, once more for each micro-batch
        that the trace lacks."""
        found = np.ones(len(launched.program))
        if len(self._first):
            first, second = self._bounds(launched)
            lasting = ends_us[second] - ends_us[first]
            middle = int(np.argsort(lasting, kind="stable")[len(lasting) // 2])
            found[first[middle] + 1 : second[middle] + 1] += self._count - self.few
        return found

    def shapes(self, launched: Launched) -> Shapes:
        """Of the kernels of the program; copies have none. Groups are alike wherever their first rank is."""
        load = self.step.load
        index = np.full(len(launched.row), -1, dtype=np.int64)
        own = launched.row < len(load.index)
        index[own] = load.index[launched.row[own]]
        known = [replace(item, ranks=tuple(rank - item.ranks[0] for rank in item.ranks)) for item in load.signatures]
        return Shapes(index=index, known=known)

    def _bounds(self, launched: Launched) -> tuple[Ints, Ints]:
        """The first and the second launch of what each micro-batch launches once; of what runs again the first."""
        at = np.zeros(len(self.step.program), dtype=np.int64)
        own = np.flatnonzero(launched.row < len(at))
        at[launched.row[own][::-1]] = own[::-1]
        return at[self._first], at[self._second]


# --- its baselines ----------------------------------------------------------------------------------------------------


class RankBaselines:
    """Made once for each network, as some cells are built otherwise where operators are selected for recompute.

    Attributes:
        question: Of the trace without swap and recompute.
        swap_on: The same of the run with swap on and nothing swapped, where swap decides how MindSpore compiles the
            step and there is a trace of that: only it tells in which order kernels are launched with swap.
    """

    def __init__(self, folder: Path, study: Study, policy: str, machine: Machine) -> None:
        self.question = Question(folder, study, policy, machine)
        beside = swap_on_beside(folder) if is_turned_by_swap(study.config, study.versions) else None
        self.swap_on = None if beside is None else Question(beside, study, policy)
        self._placed: dict[tuple[Question, tuple[LayerTemplate, ...]], PlacedBaseline] = {}
        self._one_step: dict[tuple[LayerTemplate, ...], OneStep | None] = {}
        self._graphed: dict[tuple[Question, tuple[LayerTemplate, ...]], GraphedBaseline] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        known = self.swap_on is not None
        return tuple(told for told in self.question.findings if not (known and told.rule == RULE))

    def prepared(self, network: Network) -> PlacedBaseline:
        return self._prepared(self.question, network)

    def one_step(self, network: Network) -> OneStep | None:
        """The first step of what is ``prepared``; None where its steps are not alike. For what is timed."""
        if network.templates not in self._one_step:
            assert self.question.clock is not None
            self._one_step[network.templates] = one_step(self.prepared(network), self.question.clock.step)
        return self._one_step[network.templates]

    def asked(self, strategy: Strategy) -> Question:
        """Of the run that tells in which order the kernels of a strategy are launched."""
        return self.swap_on if self.swap_on is not None and strategy.swap_on else self.question

    def graphed(self, strategy: Strategy) -> GraphedBaseline:
        question, network = self.asked(strategy), strategy.network
        key = question, network.templates
        if key not in self._graphed:
            graph = question.trace.opened.launch_graph
            self._graphed[key] = GraphedBaseline.of(self._prepared(question, network), graph)
        return self._graphed[key]

    def _prepared(self, question: Question, network: Network) -> PlacedBaseline:
        known = self._placed.get((question, network.templates))
        if known is None:
            prepared = question.prepared
            known = prepared if network == question.network else placed(prepared.baseline, network)
            self._placed[question, network.templates] = known
        return known
