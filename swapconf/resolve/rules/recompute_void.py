r"""recompute-void: an entry of recompute_config that has no effect.

``select_comm_recompute`` and the exclude lists take single operators (primitives); a cell there does nothing. An entry
whose every operator is excluded does nothing either. Fails: ``select_comm_recompute: {feed_forward: True}``.
Passes: ``select_comm_recompute: {'.*\.norm': True}``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from swapconf.errors import Finding, Origin, Severity
from swapconf.phrases import phrase
from swapconf.resolve.rules.case import Case, finding, ranges

RULE = "recompute-void"


def check(case: Case) -> Iterator[Finding]:
    layers: dict[tuple[Origin, str], set[int]] = defaultdict(set)
    for entry, outcome in case.outcomes():
        if outcome.void is not None and not outcome.request.is_swap:
            layers[outcome.request.origin, outcome.void.text].add(entry.layer.index)
    for (origin, text), void in layers.items():
        yield finding(RULE, Severity.WARNING, origin,
                      phrase("no effect in {layers}: {why}", layers=ranges(void), why=text),
                      phrase("name the operators themselves, or remove the entry"))
