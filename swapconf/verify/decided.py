"""STUDY -> DECIDED: what a config decides, in the form in which logs say it.

In graph mode every rank builds every layer, and logs all of them (measured with mindformers 1.9.0); a rank must log
what is decided for the layers of its own stage. In PyNative mode a process logs the layers that it has; which these are
on several stages is not known here, so that there only what is logged is compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from swapconf.config.config import Config, EveryLayer
from swapconf.decide import budget, log_lines, module_lines
from swapconf.decide.module_paths import literal
from swapconf.decide.modules import by_layer, by_pattern, modules_of
from swapconf.decide.strategy import ModuleOutcome, Strategy
from swapconf.study.study import Study
from swapconf.verify import worker_logs
from swapconf.verify.worker_logs import LoggedEntry, Skipped
from swapconf.words.findings import Origin

FULL = "full recompute"
Key: TypeAlias = tuple[int, str, str]  # layer, kind and operator


@dataclass(frozen=True, slots=True)
class Asked:
    """Where the YAML asks for something, and by which pattern."""

    origin: Origin
    pattern: str


@dataclass(kw_only=True)
class Decided:
    """What logs must and may say.

    Attributes:
        section: Where the YAML begins to ask.
        entries: Of all layers; ``by_stage``: those that a rank of a stage must log.
        void: What is asked for and has no effect, with the rule.
        void_may_be_set: mindformers alone logs it as set all the same, and nothing comes of it.
        is_known: What the log names of the model is known.
        silent_full: mindformers alone does not log that all layers are recomputed.
    """

    section: Origin
    is_known: bool
    void_may_be_set: bool
    silent_full: bool = False
    entries: set[LoggedEntry] = field(default_factory=set)
    by_stage: defaultdict[int, set[LoggedEntry]] = field(default_factory=lambda: defaultdict(set))
    void: dict[Key, str] = field(default_factory=dict)
    asked: dict[Key, Asked] = field(default_factory=dict)


def of_strategy(study: Study, strategy: Strategy) -> Decided:
    """Of graph mode."""
    full = study.config.recompute.full
    found = Decided(
        section=study.config.origin("swap_config.swap", "swap_config"),
        is_known=strategy.network.family is not None,
        void_may_be_set=True,
        silent_full=strategy.swap_on and full is not None and isinstance(full.layers, EveryLayer),
    )
    for entry in strategy.layers:
        for line in log_lines.lines(entry, strategy.swap_on):
            set_here, skipped = worker_logs.parse(line)
            found.entries |= plain(set_here)
            found.by_stage[entry.layer.stage] |= plain(set_here)
            found.void.update({key_of(item): item.rule for item in skipped})
        for outcome in entry.plan.outcomes:
            request = outcome.request
            key = entry.layer.index, _kind(request.kind), request.operator.lstrip(".")
            found.asked[key] = Asked(request.origin, request.pattern)
    return found


def of_modules(study: Study) -> Decided:
    """Of PyNative mode."""
    config = study.config
    known = modules_of(config, study.versions.mindformers)
    found = Decided(
        section=config.origin("swap.enable", "recompute.mode", "swap", "recompute"),
        is_known=known(0) is not None and all(literal(entry.pattern) for entry in config.recompute.select_comm),
        void_may_be_set=False,
    )
    places = _places(config)
    with budget.shared():
        for layer, outcomes in by_layer(config, known):
            for one in outcomes:
                asked = Asked(places.get((one.kind, one.module), found.section), one.module)
                _take(found, layer, one, asked)
    if config.pipeline.num_stages == 1:
        found.by_stage[0] = found.entries
    return found


def _take(found: Decided, layer: int, outcome: ModuleOutcome, asked: Asked) -> None:
    for line in module_lines.lines(layer, (outcome,)):
        entries, skipped = worker_logs.parse(line)
        found.entries |= entries
        found.void.update({key_of(item): item.rule for item in skipped})
        found.asked.update({key_of(item): asked for item in entries})
        found.asked.update({key_of(item): asked for item in skipped})


def _places(config: Config) -> Mapping[tuple[str, str], Origin]:
    """By kind and pattern."""
    found: dict[tuple[str, str], Origin] = {
        (kind, entry.pattern): entry.origin for kind, entries in by_pattern(config) for entry in entries
    }
    if config.recompute.full is not None:
        found["recompute", ""] = config.recompute.full.origin
    for layer_swap in getattr(config.swap, "layer_swap", ()):
        found["layer_swap", ""] = layer_swap.origin
    return found


def key_of(item: LoggedEntry | Skipped) -> Key:
    return item.layer, _kind(item.kind), item.operator


def plain(entries: set[LoggedEntry] | frozenset[LoggedEntry]) -> frozenset[LoggedEntry]:
    """mindformers writes ``on`` behind a recompute only where swap is off."""
    return frozenset(item._replace(kind=item.kind.removesuffix(" on")) for item in entries)


def _kind(kind: str) -> str:
    """One name for what a request of the YAML and a line of a log call differently."""
    name = kind.replace("_", " ").removesuffix(" on")
    return {"default": "op_swap", "op swap": "op_swap", "recompute": FULL}.get(name, name)
