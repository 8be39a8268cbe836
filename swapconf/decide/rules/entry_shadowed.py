r"""entry-shadowed: an entry, or some of its layers, that another entry overrides with another prefetch.

Among entries of ``layer_swap``, and among entries of ``op_swap`` with one name, the first that names a layer counts.
Among different names that match one operator, the later name counts. ``layers: True`` beside another prefetch for the
same name is refused by mindformers, and is an error here.

Fails: ``layer_swap: [{backward_prefetch: 1, layers: [0, 1]}, {backward_prefetch: 7, layers: [1, 2]}]`` (layer 1).
Passes: the second entry with ``layers: [2]``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from swapconf.config.config import EveryLayer, LayerSwap, ListedSwap, OpSwap
from swapconf.decide.requests import op_groups
from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "entry-shadowed"


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    if not isinstance(swap, ListedSwap):
        return
    yield from _one_name(case, swap.layer_swap, "layer_swap")
    for group in op_groups(swap):
        yield from _one_name(case, [swap.op_swap[position] for position in group.entries], f"'{group.pattern}'")
    yield from _by_later_name(case)


def _one_name(case: Case, entries: Sequence[LayerSwap | OpSwap], name: str) -> Iterator[Finding]:
    if any(isinstance(entry.layers, EveryLayer) for entry in entries) and len({e.prefetch for e in entries}) > 1:
        for entry in entries[1:]:
            if entry.prefetch != entries[0].prefetch:
                yield finding(
                    RULE,
                    Severity.ERROR,
                    entry.origin,
                    phrase(
                        "backward_prefetch {prefetch} contradicts {first} of line {line}: {name} covers "
                        "every layer with `layers: True`",
                        prefetch=entry.prefetch,
                        first=entries[0].prefetch,
                        line=entries[0].origin.line,
                        name=name,
                    ),
                    phrase("list the layers of each prefetch, or give both one prefetch"),
                )
        return
    taken: dict[int, LayerSwap | OpSwap] = {}
    for entry in entries:
        layers = case.chosen(entry.layers)
        lost = {layer for layer in layers if layer in taken and taken[layer].prefetch != entry.prefetch}
        if lost:
            first = taken[min(lost)]
            yield finding(
                RULE,
                Severity.WARNING,
                entry.origin,
                phrase(
                    "backward_prefetch {prefetch} is not used in {layers}: line {line} names {name} there "
                    "first, with {first}",
                    prefetch=entry.prefetch,
                    layers=ranges(lost),
                    line=first.origin.line,
                    name=name,
                    first=first.prefetch,
                ),
                phrase("take these layers out of one of the two entries"),
            )
        for layer in layers:
            taken.setdefault(layer, entry)


def _by_later_name(case: Case) -> Iterator[Finding]:
    lost: dict[Origin, set[int]] = defaultdict(set)
    text: dict[Origin, str] = {}
    for layer, origin, reason in case.void_entries():
        if reason.rule == RULE:
            lost[origin].add(layer)
            text[origin] = reason.text
    for origin, layers in lost.items():
        yield finding(
            RULE,
            Severity.WARNING,
            origin,
            phrase("not used in {layers}: {why}", layers=ranges(layers), why=text[origin]),
            phrase("remove this entry, or put it after the one that overrides it"),
        )
