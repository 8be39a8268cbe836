"""FOLDER + STUDY -> the baselines of one rank: its trace, and the one with swap on beside it."""

from __future__ import annotations

from pathlib import Path

from swapconf.decide.strategy import Strategy
from swapconf.models.network import LayerTemplate, Network
from swapconf.study.study import Study
from swapconf.timing.cost import Machine
from swapconf.whatif.graph.predict import GraphedBaseline
from swapconf.whatif.inlined import RULE, is_turned_by_swap, swap_on_beside
from swapconf.whatif.one_step import OneStep, one_step
from swapconf.whatif.placed import PlacedBaseline, placed
from swapconf.whatif.question import Question
from swapconf.words.findings import Finding


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
