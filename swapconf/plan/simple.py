"""JUDGE -> PLANS: what people use today, to start from and to be held against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swapconf.plan.halving import fewest_slow
from swapconf.plan.judge import Judge
from swapconf.plan.menu import PREFETCHES
from swapconf.plan.modes import KEEP, RECOMPUTED, Atom, Mode, Plan, uniform
from swapconf.words.phrases import mark, phrase

_DEFAULT_PREFETCH = 1  # of `default_prefetch` in mindformers 1.5 to 1.9

NONE, FULL = mark("no swap, no recompute"), mark("full recompute")
FIRST_RECOMPUTED = mark("the first layers of each stage recomputed")
DEFAULT_SWAP = mark("default swap (flash attention)")
FIRST_SWAPPED = mark("the first layers of each stage swapped")
SAME = mark("one mode for all layers")


def fixed(judge: Judge) -> dict[str, Plan]:
    """Those that do not depend on the budget, by name."""
    found = {NONE: uniform(KEEP, judge.network), FULL: uniform(RECOMPUTED, judge.network)}
    atom = flash(judge)
    if atom is not None:
        found[DEFAULT_SWAP] = uniform(frozenset({atom}), judge.network)
    return found


def first_layers(judge: Judge) -> Iterator[tuple[str, Plan]]:
    """As few of the first layers of each stage as it takes, recomputed, or swapped with each prefetch."""
    yield phrase(FIRST_RECOMPUTED), _first_layers(judge, RECOMPUTED)
    for prefetch in PREFETCHES:
        yield phrase(FIRST_SWAPPED), _first_layers(judge, frozenset({Atom("swap", "", prefetch)}))


def best_uniform(judge: Judge, modes: Iterable[Mode]) -> Plan | None:
    """The fastest mode that fits in all layers."""
    scored = [judge.score(uniform(mode, judge.network)) for mode in modes]
    fitting = [item for item in scored if item.fits]
    return min(fitting, key=lambda item: item.rank).plan if fitting else None


def _first_layers(judge: Judge, mode: Mode) -> Plan:
    found = fewest_slow(judge, uniform(KEEP, judge.network), uniform(mode, judge.network))
    assert found is not None  # it has one entry
    return found


def flash(judge: Judge) -> Atom | None:
    """What the default swap swaps; None where the layers have no flash attention."""
    for template in judge.network.templates:
        for operator in template.primitives:
            if operator.type == "FlashAttentionScore":
                return Atom("swap", operator.path, _DEFAULT_PREFETCH)
    return None
