"""STRATEGY against SAID -> DEVIATIONS: the lines of one rank's logs, compared with what the config decides for it.

Every rank builds every layer, and logs all of them (measured with mindformers 1.9.0). A rank must therefore log what is
decided for the layers of its own stage; what it logs of other layers must agree as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from swapconf.errors import Origin
from swapconf.formats import worker_log, worker_logs
from swapconf.formats.worker_logs import Entry, Said
from swapconf.phrases import phrase
from swapconf.strategy import Strategy
from swapconf.study.study import Study
from swapconf.verification.deviation import (
    DIFFERS,
    MISSING,
    NO_LINE,
    OTHER_RUN,
    RECOMPUTED,
    UNDECIDED,
    VOID,
    Deviation,
    counted,
)

_WHOLE = phrase("the whole layer")


class Comparison:
    """What the config decides, in the form in which logs say it."""

    def __init__(self, study: Study, strategy: Strategy, folder: str) -> None:
        self.known = strategy.network.family is not None
        self._folder = Origin(file=folder)
        self._section = study.config.origin("swap_config.swap", "swap_config")
        self._strategy = strategy
        self._seen: dict[tuple[frozenset[Entry], object, bool, int], tuple[Deviation, ...]] = {}
        self._decided: set[Entry] = set()
        self._void: dict[tuple[int, str, str], str] = {}
        for entry in strategy.layers:
            for line in worker_log.lines(entry, strategy.swap_on):
                decided, skipped = worker_logs.parse(line)
                self._decided |= decided
                self._void.update({item[:3]: item.rule for item in skipped})
        self._places = {(entry.layer.index, _kind(outcome.request.kind), outcome.request.operator.lstrip(".")):
                        outcome.request.origin for entry in strategy.layers for outcome in entry.plan.outcomes}

    @cached_property
    def _stages(self) -> dict[int, set[Entry]]:
        stage = {entry.layer.index: entry.layer.stage for entry in self._strategy.layers}
        found: dict[int, set[Entry]] = defaultdict(set)
        for item in self._decided:
            found[stage[item.layer]].add(item)
        return found

    def of(self, said: Said, stage: int) -> tuple[Deviation, ...]:
        """How a rank of a stage deviates; most ranks say the same, so it is worked out once."""
        key = said.entries, said.skipped, said.outside_lazy_inline > 0, stage
        if key not in self._seen:
            self._seen[key] = tuple(self._of(said, stage))
        return self._seen[key]

    def _of(self, said: Said, stage: int) -> Iterator[Deviation]:
        if said.outside_lazy_inline and (swaps := [item.layer for item in said.entries if item.value is not None]):
            yield Deviation(VOID, self._section, phrase(
                "swap is set at {layers}, but MindSpore warns that it has no effect outside of lazy inline",
                layers=counted("layer", swaps)), phrase(
                "raise pipeline_stage or gradient_accumulation_steps above 1, or use `swapconf run` (see `swapconf "
                "rules lazy-inline-off`)"))
        if not self.known:
            return
        expected = self._stages.get(stage, set())
        if expected and not said.entries and not said.skipped:
            yield Deviation(NO_LINE, self._folder, phrase("the log says nothing of swap or recompute"),
                            phrase("look for an error in the log, and let mindformers log at level INFO"))
            return
        missing, extra = expected - said.entries, said.entries - self._decided
        logged = {item[:3]: item.value for item in extra}
        changed = {item for item in missing if item[:3] in logged}
        yield from self._grouped(DIFFERS, changed, lambda item, layers: phrase(
            "{what} at {layers}: backward_prefetch {decided} is decided, {logged} is logged", what=_what(item),
            layers=layers, decided=item.value, logged=logged[item[:3]]))
        skipped = {item[:3]: item.rule for item in said.skipped}
        yield from self._grouped(MISSING, missing - changed, lambda item, layers: phrase(
            "{what} at {layers} is decided, but skipped [{rule}]{value}", what=_what(item), layers=layers,
            rule=skipped[item[:3]], value=_value(item)) if item[:3] in skipped else phrase(
            "{what} at {layers} is decided, but not logged{value}", what=_what(item), layers=layers,
            value=_value(item)))
        changed_keys = {item[:3] for item in changed}
        rest = {item for item in extra if item[:3] not in changed_keys}
        void = {item for item in rest if item[:3] in self._void}
        yield from self._grouped(RECOMPUTED, void, lambda item, layers: phrase(
            "{what} at {layers} is logged as set, but has no effect, as decided [{rule}]", what=_what(item),
            layers=layers, rule=self._void[item[:3]]))
        yield from self._grouped(UNDECIDED, rest - void, lambda item, layers: phrase(
            "{what} at {layers} is logged, but not decided{value}", what=_what(item), layers=layers,
            value=_value(item)))
        strange = {item[:3] for item in said.skipped} - self._void.keys() - {item[:3] for item in missing}
        yield from self._grouped(UNDECIDED, {Entry(*item) for item in strange}, lambda item, layers: phrase(
            "{what} at {layers} is logged as skipped, but not asked for", what=_what(item), layers=layers))

    def _grouped(self, rule: str, items: Iterable[Entry], message: Callable[[Entry, str], str]) -> Iterator[Deviation]:
        """Equal deviations of several layers in one. ``message``: of an entry, with the layers in words."""
        groups: dict[tuple[Origin, str], list[Entry]] = defaultdict(list)
        for item in items:
            origin = self._places.get((item.layer, _kind(item.kind), item.operator), self._section)
            groups[origin, message(item, "")].append(item)
        hint = OTHER_RUN if rule != RECOMPUTED else phrase("nothing to do; `swapconf run` logs it as skipped")
        for (origin, _), entries in groups.items():
            layers = counted("layer", [entry.layer for entry in entries])
            yield Deviation(rule, origin, message(entries[0], layers), hint)


def _kind(kind: str) -> str:
    """One name for what a request of the YAML and a line of a log call differently."""
    name = kind.replace("_", " ").removesuffix(" on")
    return {"default": "op swap", "recompute": "full recompute"}.get(name, name)


def _what(item: Entry) -> str:
    return phrase("{kind} of {operator}", kind=item.kind, operator=item.operator or _WHOLE)


def _value(item: Entry) -> str:
    return "" if item.value is None else phrase(" (backward_prefetch {prefetch})", prefetch=item.value)
