"""STRATEGY against SAID -> DEVIATIONS: the lines of one rank's logs, compared with what the config decides for it.

Every rank builds every layer, and logs all of them (measured with mindformers 1.9.0). A rank must therefore log what is
decided for the layers of its own stage; what it logs of other layers must agree as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from swapconf.errors import Origin
from swapconf.formats import worker_log, worker_logs
from swapconf.formats.worker_logs import Entry, Said
from swapconf.pipeline import Study
from swapconf.strategy import Strategy
from swapconf.verification.deviation import DIFFERS, MISSING, NO_LINE, OTHER_RUN, RECOMPUTED, UNDECIDED, VOID, Deviation

_WHOLE = "the whole layer"


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
        if said.outside_lazy_inline and (swaps := [item for item in said.entries if item.value is not None]):
            yield Deviation(VOID, self._section, "swap is set", "raise pipeline_stage or gradient_accumulation_steps "
                            "above 1, or use `swapconf run` (see `swapconf rules lazy-inline-off`)",
                            _layers(swaps), ", but MindSpore warns that it has no effect outside of lazy inline")
        if not self.known:
            return
        expected = self._stages.get(stage, set())
        if expected and not said.entries and not said.skipped:
            yield Deviation(NO_LINE, self._folder, "the log says nothing of swap or recompute",
                            "look for an error in the log, and let mindformers log at level INFO")
            return
        missing, extra = expected - said.entries, said.entries - self._decided
        logged = {item[:3]: item.value for item in extra}
        changed = {item for item in missing if item[:3] in logged}
        yield from self._grouped(DIFFERS, ((item, f": backward_prefetch {item.value} is decided, {logged[item[:3]]} is "
                                            "logged") for item in changed))
        skipped = {item[:3]: item.rule for item in said.skipped}
        yield from self._grouped(MISSING, (
            (item, f" is decided, but {f'skipped [{skipped[item[:3]]}]' if item[:3] in skipped else 'not logged'}"
             f"{_value(item)}") for item in missing - changed))
        changed_keys = {item[:3] for item in changed}
        rest = {item for item in extra if item[:3] not in changed_keys}
        void = {item for item in rest if item[:3] in self._void}
        yield from self._grouped(RECOMPUTED, ((item, " is logged as set, but has no effect, as decided "
                                               f"[{self._void[item[:3]]}]") for item in void))
        strange = {item[:3] for item in said.skipped} - self._void.keys() - {item[:3] for item in missing}
        yield from self._grouped(UNDECIDED, [
            *((item, f" is logged, but not decided{_value(item)}") for item in rest - void),
            *((Entry(*item), " is logged as skipped, but not asked for") for item in strange)])

    def _grouped(self, rule: str, items: Iterable[tuple[Entry, str]]) -> Iterator[Deviation]:
        """Equal deviations of several layers in one."""
        groups: dict[tuple[Origin, str, str], list[Entry]] = defaultdict(list)
        for item, text in items:
            origin = self._places.get((item.layer, _kind(item.kind), item.operator), self._section)
            groups[origin, f"{item.kind} of {item.operator or _WHOLE}", text].append(item)
        for (origin, subject, text), entries in groups.items():
            yield Deviation(rule, origin, subject, OTHER_RUN if rule != RECOMPUTED else "nothing to do; "
                            "`swapconf run` logs it as skipped", _layers(entries), text)


def _kind(kind: str) -> str:
    """One name for what a request of the YAML and a line of a log call differently."""
    name = kind.replace("_", " ").removesuffix(" on")
    return {"default": "op swap", "recompute": "full recompute"}.get(name, name)


def _value(item: Entry) -> str:
    return "" if item.value is None else f" (backward_prefetch {item.value})"


def _layers(entries: Iterable[Entry]) -> tuple[int, ...]:
    return tuple(sorted({entry.layer for entry in entries}))
