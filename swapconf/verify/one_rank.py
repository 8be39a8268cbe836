"""STRATEGY against SAID -> DEVIATIONS: the lines of one rank's logs, compared with what the config decides for it.

Every rank builds every layer, and logs all of them (measured with mindformers 1.9.0). A rank must therefore log what is
decided for the layers of its own stage; what it logs of other layers must agree as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cached_property
from typing import TypeAlias

from swapconf.config.config import EveryLayer
from swapconf.decide import log_lines
from swapconf.decide.strategy import Strategy
from swapconf.study.study import Study
from swapconf.verify import worker_logs
from swapconf.verify.deviation import (
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
from swapconf.verify.worker_logs import LoggedEntry, Said, Skipped
from swapconf.words.findings import Origin
from swapconf.words.phrases import phrase

_WHOLE = phrase("the whole layer")
_FULL = "full recompute"
Key: TypeAlias = tuple[int, str, str]


class Comparison:
    """What the config decides, in the form in which logs say it."""

    def __init__(self, study: Study, strategy: Strategy, folder: str) -> None:
        self.known = strategy.network.family is not None
        self._folder = Origin(file=folder)
        self._section = study.config.origin("swap_config.swap", "swap_config")
        self._strategy = strategy
        self._seen: dict[tuple[frozenset[LoggedEntry], object, bool, int], tuple[Deviation, ...]] = {}
        self._decided: set[LoggedEntry] = set()
        self._void: dict[Key, str] = {}
        for entry in strategy.layers:
            for line in log_lines.lines(entry, strategy.swap_on):
                decided, skipped = worker_logs.parse(line)
                self._decided |= _plain(decided)
                self._void.update({_key(item): item.rule for item in skipped})
        self._requests = {
            (entry.layer.index, _kind(outcome.request.kind), outcome.request.operator.lstrip(".")): outcome.request
            for entry in strategy.layers
            for outcome in entry.plan.outcomes
        }
        full = study.config.recompute.full
        self._silent_full = strategy.swap_on and full is not None and isinstance(full.layers, EveryLayer)

    @cached_property
    def _stages(self) -> dict[int, set[LoggedEntry]]:
        stage = {entry.layer.index: entry.layer.stage for entry in self._strategy.layers}
        found: dict[int, set[LoggedEntry]] = defaultdict(set)
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
        yield from self._without_lazy_inline(said)
        if not self.known:
            return
        expected = self._stages.get(stage, set())
        if expected and not said.entries and not said.skipped:
            yield Deviation(
                NO_LINE,
                self._folder,
                phrase("the log says nothing of swap or recompute"),
                phrase("look for an error in the log, and let mindformers log at level INFO"),
            )
            return
        entries = _plain(said.entries)
        missing, extra = expected - entries, entries - self._decided
        missing -= self._unlogged(missing, entries, said)
        in_both = {_place(item) for item in missing} & {_place(item) for item in extra}
        yield from self._with_another_value({item for item in missing if _place(item) in in_both}, extra)
        yield from self._missing({item for item in missing if _place(item) not in in_both}, said.skipped)
        yield from self._unexpected({item for item in extra if _place(item) not in in_both})
        yield from self._not_asked_for(said.skipped)

    def _without_lazy_inline(self, said: Said) -> Iterator[Deviation]:
        swaps = [item.layer for item in said.entries if item.value is not None]
        if said.outside_lazy_inline and swaps:
            yield Deviation(
                VOID,
                self._section,
                phrase(
                    "swap is set at {layers}, but MindSpore warns that it has no effect outside of lazy inline",
                    layers=counted("layer", swaps),
                ),
                phrase(
                    "raise pipeline_stage or gradient_accumulation_steps above 1, or use `swapconf run` (see `swapconf "
                    "rules lazy-inline-off`)"
                ),
            )

    def _with_another_value(self, items: Set[LoggedEntry], extra: Iterable[LoggedEntry]) -> Iterator[Deviation]:
        """``items``: what is decided at places where ``extra``, which is logged, gives another prefetch."""
        logged = {_place(item): item.value for item in extra}
        return self._grouped(
            DIFFERS,
            items,
            lambda item, layers: phrase(
                "{what} at {layers}: backward_prefetch {decided} is decided, {logged} is logged",
                what=_what(item),
                layers=layers,
                decided=item.value,
                logged=logged[_place(item)],
            ),
        )

    def _missing(self, items: Set[LoggedEntry], skipped: Iterable[Skipped]) -> Iterator[Deviation]:
        """What is decided, but not set by the run."""
        rules = {_key(item): item.rule for item in skipped}

        def message(item: LoggedEntry, layers: str) -> str:
            if _key(item) in rules:
                return phrase(
                    "{what} at {layers} is decided, but skipped [{rule}]{value}",
                    what=_what(item),
                    layers=layers,
                    rule=rules[_key(item)],
                    value=_value(item),
                )
            return phrase(
                "{what} at {layers} is decided, but not logged{value}",
                what=_what(item),
                layers=layers,
                value=_value(item),
            )

        return self._grouped(MISSING, items, message)

    def _unexpected(self, items: Set[LoggedEntry]) -> Iterator[Deviation]:
        """What the run sets, but is not decided; or what is decided to have no effect."""
        void = {item for item in items if _key(item) in self._void}
        yield from self._grouped(
            RECOMPUTED,
            void,
            lambda item, layers: phrase(
                "{what} at {layers} is logged as set, but has no effect, as decided [{rule}]",
                what=_what(item),
                layers=layers,
                rule=self._void[_key(item)],
            ),
        )
        yield from self._grouped(
            UNDECIDED,
            items - void,
            lambda item, layers: phrase(
                "{what} at {layers} is logged, but not decided{value}",
                what=_what(item),
                layers=layers,
                value=_value(item),
            ),
        )

    def _not_asked_for(self, skipped: Iterable[Skipped]) -> Iterator[Deviation]:
        strange = {_key(item) for item in skipped} - self._void.keys() - self._requests.keys()
        return self._grouped(
            UNDECIDED,
            {LoggedEntry(*item) for item in strange},
            lambda item, layers: phrase(
                "{what} at {layers} is logged as skipped, but not asked for", what=_what(item), layers=layers
            ),
        )

    def _unlogged(self, missing: Set[LoggedEntry], entries: Set[LoggedEntry], said: Said) -> set[LoggedEntry]:
        """What plain mindformers 1.9.0 sets without a line: of the operators that a pattern of recompute matches side
        by side it logs the last one, and with swap on it does not log that all layers are recomputed."""
        logged = {(item.layer, item.kind, self._pattern(item)) for item in entries}
        silent = self._silent_full and not said.skipped and not any(item.kind == _FULL for item in entries)
        return {
            item
            for item in missing
            if item.value is None
            and (silent if item.kind == _FULL else (item.layer, item.kind, self._pattern(item)) in logged)
        }

    def _pattern(self, item: LoggedEntry) -> str | None:
        request = self._requests.get(_key(item))
        return request.pattern if request is not None else None

    def _grouped(
        self, rule: str, items: Iterable[LoggedEntry], message: Callable[[LoggedEntry, str], str]
    ) -> Iterator[Deviation]:
        """Equal deviations of several layers in one. ``message``: of an entry, with the layers in words."""
        groups: dict[tuple[Origin, str], list[LoggedEntry]] = defaultdict(list)
        for item in items:
            request = self._requests.get(_key(item))
            origin = request.origin if request is not None else self._section
            groups[origin, message(item, "")].append(item)
        hint = OTHER_RUN if rule != RECOMPUTED else phrase("nothing to do; `swapconf run` logs it as skipped")
        for (origin, _), entries in groups.items():
            layers = counted("layer", [entry.layer for entry in entries])
            yield Deviation(rule, origin, message(entries[0], layers), hint)


def _kind(kind: str) -> str:
    """One name for what a request of the YAML and a line of a log call differently."""
    name = kind.replace("_", " ").removesuffix(" on")
    return {"default": "op_swap", "op swap": "op_swap", "recompute": _FULL}.get(name, name)


def _key(item: LoggedEntry | Skipped) -> Key:
    return item.layer, _kind(item.kind), item.operator


def _place(item: LoggedEntry) -> Key:
    """What an entry is about, whatever its value."""
    return item.layer, item.kind, item.operator


def _plain(entries: Iterable[LoggedEntry]) -> frozenset[LoggedEntry]:
    """mindformers writes ``on`` behind a recompute only where swap is off."""
    return frozenset(item._replace(kind=item.kind.removesuffix(" on")) for item in entries)


def _what(item: LoggedEntry) -> str:
    return phrase("{kind} of {operator}", kind=item.kind, operator=item.operator or _WHOLE)


def _value(item: LoggedEntry) -> str:
    return "" if item.value is None else phrase(" (backward_prefetch {prefetch})", prefetch=item.value)
