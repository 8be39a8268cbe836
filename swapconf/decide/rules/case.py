"""What a rule looks at: the config, the network, the strategy they give, and the versions and variables in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from swapconf.config.config import Config, Dialect, FullRecompute, LayerSelection, ListedSwap, OpSwap, SelectRecompute
from swapconf.decide.patterns import BadPattern, matches
from swapconf.decide.requests import stage_map
from swapconf.decide.stages import BadDeal, StageMap
from swapconf.decide.strategy import LayerPlan, LayerStrategy, Reason, RequestOutcome, Strategy
from swapconf.models.network import LayerTemplate, Network
from swapconf.upstream.facts import Versions
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase, plural
from swapconf.words.units import runs

GRAPH_MODE = frozenset({Dialect.LEGACY, Dialect.MCORE})  # a rule without DIALECTS holds for these
PYNATIVE = frozenset({Dialect.PYNATIVE})
EVERY_DIALECT = GRAPH_MODE | PYNATIVE


@dataclass(frozen=True, kw_only=True)
class Case:
    """``network`` and ``strategy`` are None when the number of layers is not known."""

    config: Config
    versions: Versions
    network: Network | None = None
    strategy: Strategy | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def templates(self) -> tuple[LayerTemplate, ...]:
        """The known operator trees of the model; none for an unknown family."""
        return self.network.templates if self.network is not None and self.network.is_known else ()

    def templates_at(self, layers: LayerSelection) -> tuple[LayerTemplate, ...]:
        """The operator trees of the selected layers."""
        if self.network is None or not self.templates:
            return ()
        chosen = self.chosen(layers)
        return tuple(dict.fromkeys(layer.template for layer in self.network.layers if layer.index in chosen))

    def chosen(self, layers: LayerSelection) -> frozenset[int]:
        """The selected layers that exist; none when counts do not fit the stages."""
        if self.network is None:
            return frozenset()
        try:
            return self._stages.selected(layers)
        except BadDeal:
            return frozenset()

    @cached_property
    def _stages(self) -> StageMap:
        return stage_map(self.config, self.network.num_layers if self.network is not None else 0)

    def void_entries(self) -> Iterator[tuple[int, Origin, Reason]]:
        """Layer, entry and first reason of every swap entry of the YAML of which nothing is in effect at a layer."""
        known: dict[LayerPlan, dict[Origin, Reason]] = {}
        for entry in self.strategy.layers if self.strategy is not None else ():
            if entry.plan not in known:
                known[entry.plan] = _wholly_void(entry)
            for origin, reason in known[entry.plan].items():
                yield entry.layer.index, origin, reason

    def outcomes(self) -> Iterator[tuple[LayerStrategy, RequestOutcome]]:
        for entry in self.strategy.layers if self.strategy is not None else ():
            for outcome in entry.plan.outcomes:
                yield entry, outcome

    def recompute_entries(self) -> tuple[FullRecompute | SelectRecompute, ...]:
        """Every entry of recompute_config that selects layers."""
        recompute = self.config.recompute
        full = (recompute.full,) if recompute.full is not None else ()
        return (
            *full,
            *recompute.select,
            *recompute.select_comm,
            *recompute.select_exclude,
            *recompute.select_comm_exclude,
        )

    @property
    def asks_for_anything(self) -> bool:
        """Whether anything is to be swapped or recomputed."""
        return self.config.swap_on or bool(self.recompute_entries())

    @property
    def asked_at(self) -> Origin:
        """Where that begins, for what concerns all of it."""
        recompute = self.config.recompute
        asked = (
            (self.config.swap_on, ("swap_config.swap", "swap.enable")),
            (recompute.full is not None, ("recompute_config.recompute", "recompute.mode")),
            (bool(recompute.select), ("recompute_config.select_recompute", "recompute.mode")),
            (bool(recompute.select_comm), ("recompute_config.select_comm_recompute", "recompute_comm.enable")),
        )
        return self.config.origin(
            *(path for is_asked, paths in asked if is_asked for path in paths),
            *(path for _, paths in asked for path in paths),
        )

    def patterns(self) -> Iterator[OpSwap | SelectRecompute]:
        """Every entry of the YAML that names operators; built-in patterns are not the user's."""
        swap = self.config.swap
        if isinstance(swap, ListedSwap):
            yield from swap.op_swap
            yield from (entry for entry in swap.unusable if isinstance(entry, OpSwap))
        yield from (
            entry for entry in self.recompute_entries() if isinstance(entry, SelectRecompute) and not entry.builtin
        )


def matched(pattern: str, templates: Iterable[LayerTemplate]) -> bool:
    """Whether a usable pattern selects anything in these templates."""
    try:
        return any(matches(pattern, template) for template in templates)
    except BadPattern:
        return False


def usable(pattern: str) -> bool:
    try:
        matches(pattern, _NOTHING)
    except BadPattern:
        return False
    return True


def _wholly_void(entry: LayerStrategy) -> dict[Origin, Reason]:
    outcomes: dict[Origin, list[RequestOutcome]] = {}
    for outcome in entry.plan.outcomes:
        if outcome.request.is_swap:
            outcomes.setdefault(outcome.request.origin, []).append(outcome)
    return {
        origin: found[0].void
        for origin, found in outcomes.items()
        if found[0].void is not None and all(outcome.void is not None for outcome in found)
    }


_NOTHING = LayerTemplate(name="", cell="", operators=())


def finding(rule: str, severity: Severity, origin: Origin, message: str, hint: str, *, stops_with: str = "") -> Finding:
    return Finding(origin=origin, rule=rule, severity=severity, message=message, hint=hint, stops_with=stops_with)


def ranges(indices: Iterable[int]) -> str:
    """Layer indices in words: ``layer 3``, ``layers 0-2, 5``."""
    distinct = set(indices)
    return (
        plural(len(distinct), "layer {layers}", "layers {layers}", layers=", ".join(runs(distinct)))
        if distinct
        else phrase("no layer")
    )
