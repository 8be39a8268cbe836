r"""shared-primitive: one primitive serves all layers, so it cannot be swapped in some of them only.

In mindformers 1.9.0 the gating activation of every MoE router is one object; a flag set in one layer acts in all of
them. Where the layers do not agree, swapconf leaves it alone. Reported on a MoE model with more layers:
``layer_swap: [{backward_prefetch: 5, layers: [1]}]``. Passes: ``layers: True``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from swapconf.errors import Finding, Origin, Severity
from swapconf.phrases import phrase
from swapconf.resolve.rules.case import Case, finding, ranges

RULE = "shared-primitive"


def check(case: Case) -> Iterator[Finding]:
    places: dict[tuple[Origin, str], set[int]] = defaultdict(set)
    for entry in case.strategy.layers if case.strategy else ():
        for path, decision in entry.plan.decisions.items():
            if decision.reason.rule == RULE and decision.requested is not None:
                places[decision.requested.origin, path].add(entry.layer.index)
    for (origin, path), layers in places.items():
        yield finding(RULE, Severity.NOTE, origin,
                      phrase("{operator} is not swapped in {layers}: it is one object in all layers, which do not "
                             "agree on it", operator=path, layers=ranges(layers)),
                      phrase("nothing to do: its tensor is small; or ask for the same in every layer"))
