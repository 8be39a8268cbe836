r"""R2-recomputed-consumer: a swapped operator whose output is read by a recomputed operator.

The documentation says that such a swap has no effect (Fine-Grained Activations SWAP, rule 2). In MindSpore 2.9.0 it
measurably does: the tensor is moved, released and fed to the recomputed operator. swapconf decides by the version
in use and says which of the two it took. What is known by version stands in upstream/facts.py.

Reported::

    swap_config: {swap: True, op_swap: [{op_name: ffn_norm, backward_prefetch: 10, layers: [1]}]}
    recompute_config: {select_recompute: {feed_forward: [1]}}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import phrase

RULE = "R2-recomputed-consumer"


def check(case: Case) -> Iterator[Finding]:
    places: dict[Origin, set[int]] = defaultdict(set)
    readers: dict[Origin, dict[str, None]] = defaultdict(dict)
    for entry in case.strategy.layers if case.strategy else ():
        for path, decision in entry.plan.decisions.items():
            if decision.reason.rule == RULE and decision.requested is not None:
                places[decision.requested.origin].add(entry.layer.index)
                readers[decision.requested.origin].setdefault(path)
    fact = case.versions.fact("recomputed_consumer_voids_swap")
    for origin, layers in places.items():
        sites = ", ".join(readers[origin])
        if fact.value:
            yield finding(
                RULE,
                Severity.WARNING,
                origin,
                phrase(
                    "in {layers} a recomputed operator reads the output of {sites}, so its swap has no "
                    "effect there with MindSpore {version} ({source})",
                    layers=ranges(layers),
                    sites=sites,
                    version=case.versions.mindspore,
                    source=fact.source,
                ),
                phrase("swap an operator that no recomputed one reads"),
            )
        else:
            yield finding(
                RULE,
                Severity.NOTE,
                origin,
                phrase(
                    "in {layers} a recomputed operator reads the output of {sites}; the documentation "
                    "says that its swap has no effect, but with MindSpore {version} it has ({source})",
                    layers=ranges(layers),
                    sites=sites,
                    version=case.versions.mindspore,
                    source=fact.source,
                ),
                phrase("nothing to do; expect it to move"),
            )
