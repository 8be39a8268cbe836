r"""recompute-void: an entry of recompute_config that has no effect.

``select_comm_recompute`` and the exclude lists take single operators (primitives); a cell there does nothing. An entry
whose every operator is excluded does nothing either; nor does one in layers that ``recompute`` drops as a whole (a
note: it costs nothing). Fails: ``select_comm_recompute: {feed_forward: True}``.
Passes: ``select_comm_recompute: {'.*\.norm': True}``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase, plural

RULE = "recompute-void"


def check(case: Case) -> Iterator[Finding]:
    layers: dict[tuple[Origin, str], set[int]] = defaultdict(set)
    for entry, outcome in case.outcomes():
        if outcome.void is not None and outcome.void.rule == RULE and not outcome.request.is_dropped:
            layers[outcome.request.origin, outcome.void.text].add(entry.layer.index)
    for (origin, text), void in layers.items():
        yield finding(
            RULE,
            Severity.WARNING,
            origin,
            phrase("no effect in {layers}: {why}", layers=ranges(void), why=text),
            phrase("name the operators themselves, or remove the entry"),
        )
    yield from _covered(case)


def _covered(case: Case) -> Iterator[Finding]:
    full = case.config.recompute.full
    whole = case.chosen(full.layers) if full is not None else frozenset()
    for entries in (case.config.recompute.select, case.config.recompute.select_comm):
        void = {entry.origin: layers for entry in entries if (layers := case.chosen(entry.layers)) and layers <= whole}
        if full is not None and void:
            covered = phrase(
                "no effect in {layers}: line {line} recomputes the whole layer there",
                layers=ranges(frozenset().union(*void.values())),
                line=full.origin.line_from(next(iter(void))),
            )
            yield finding(
                RULE,
                Severity.NOTE,
                next(iter(void)),
                plural(
                    len(void) - 1,
                    "{covered}; nor has {count} more entry of the list",
                    "{covered}; nor have {count} more entries of the list",
                    covered=covered,
                )
                if len(void) > 1
                else covered,
                phrase("remove what has no effect, or take its layers out of `recompute`"),
            )
