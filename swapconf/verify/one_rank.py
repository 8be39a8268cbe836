"""DECIDED against SAID -> DEVIATIONS: the lines of one rank's logs, compared with what the config decides for it.

A rank must log what is decided for the layers of its own stage; what it logs of other layers must agree as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set

from swapconf.verify.decided import FULL, Decided, Key, key_of, plain
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


class Comparison:
    """Logs of one run against one config."""

    def __init__(self, decided: Decided, folder: str) -> None:
        self._decided = decided
        self._folder = Origin(file=folder)
        self._seen: dict[tuple[frozenset[LoggedEntry], object, bool, int], tuple[Deviation, ...]] = {}

    def of(self, said: Said, stage: int) -> tuple[Deviation, ...]:
        """How a rank of a stage deviates; most ranks say the same, so it is worked out once."""
        key = said.entries, said.skipped, said.outside_lazy_inline > 0, stage
        if key not in self._seen:
            self._seen[key] = tuple(self._of(said, stage))
        return self._seen[key]

    def _of(self, said: Said, stage: int) -> Iterator[Deviation]:
        yield from self._without_lazy_inline(said)
        if not self._decided.is_known:
            return
        expected = self._decided.by_stage.get(stage, set())
        if expected and not said.entries and not said.skipped:
            yield Deviation(
                NO_LINE,
                self._folder,
                phrase("the log says nothing of swap or recompute"),
                phrase("look for an error in the log, and let mindformers log at level INFO"),
            )
            return
        entries = plain(said.entries)
        missing, extra = expected - entries, entries - self._decided.entries
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
                self._decided.section,
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
        rules = {key_of(item): item.rule for item in skipped}

        def message(item: LoggedEntry, layers: str) -> str:
            if key_of(item) in rules:
                return phrase(
                    "{what} at {layers} is decided, but skipped [{rule}]{value}",
                    what=_what(item),
                    layers=layers,
                    rule=rules[key_of(item)],
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
        void = {item for item in items if self._decided.void_may_be_set and key_of(item) in self._decided.void}
        yield from self._grouped(
            RECOMPUTED,
            void,
            lambda item, layers: phrase(
                "{what} at {layers} is logged as set, but has no effect, as decided [{rule}]",
                what=_what(item),
                layers=layers,
                rule=self._decided.void[key_of(item)],
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
        strange = {key_of(item) for item in skipped} - self._decided.void.keys() - self._decided.asked.keys()
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
        silent = self._decided.silent_full and not said.skipped and not any(item.kind == FULL for item in entries)
        return {
            item
            for item in missing
            if item.value is None
            and (silent if item.kind == FULL else (item.layer, item.kind, self._pattern(item)) in logged)
        }

    def _pattern(self, item: LoggedEntry) -> str | None:
        asked = self._decided.asked.get(key_of(item))
        return asked.pattern if asked is not None else None

    def _grouped(
        self, rule: str, items: Iterable[LoggedEntry], message: Callable[[LoggedEntry, str], str]
    ) -> Iterator[Deviation]:
        """Equal deviations of several layers in one. ``message``: of an entry, with the layers in words."""
        groups: dict[tuple[Origin, str], list[LoggedEntry]] = defaultdict(list)
        for item in items:
            asked = self._decided.asked.get(key_of(item))
            origin = asked.origin if asked is not None else self._decided.section
            groups[origin, message(item, "")].append(item)
        hint = OTHER_RUN if rule != RECOMPUTED else phrase("nothing to do; `swapconf run` logs it as skipped")
        for (origin, _), entries in groups.items():
            layers = counted("layer", [entry.layer for entry in entries])
            yield Deviation(rule, origin, message(entries[0], layers), hint)


def _place(item: LoggedEntry) -> Key:
    """What an entry is about, whatever its value."""
    return item.layer, item.kind, item.operator


def _what(item: LoggedEntry) -> str:
    return phrase("{kind} of {operator}", kind=item.kind, operator=item.operator or _WHOLE)


def _value(item: LoggedEntry) -> str:
    return "" if item.value is None else phrase(" (backward_prefetch {prefetch})", prefetch=item.value)
