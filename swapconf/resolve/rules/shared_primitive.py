r"""shared-primitive: one primitive serves all layers, so what is set in one layer acts in every layer.

In mindformers 1.9.0 the gating activation of every MoE router is one object. A swap or recompute of it in some layers
reaches all of them. Reported: ``layer_swap: [{backward_prefetch: 5, layers: [1]}]`` on a MoE model with more layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from swapconf.errors import Finding, Severity
from swapconf.resolve.rules.case import Case, finding, ranges
from swapconf.strategy import Keep

RULE = "shared-primitive"


def check(case: Case) -> Iterator[Finding]:
    for path in case.network.shared if case.network is not None else ():
        entries = [entry for entry in (case.strategy.layers if case.strategy else ()) if path in entry.plan.decisions]
        changed = [entry for entry in entries if not isinstance(entry.plan.decisions[path].action, Keep)]
        if changed and len(changed) < len(entries):
            asked = changed[0].plan.decisions[path].requested
            origin = asked.origin if asked is not None else case.config.origin("recompute_config.select_recompute")
            yield finding(RULE, Severity.NOTE, origin,
                          f"{path} is one object in all layers: what is set in "
                          f"{ranges(entry.layer.index for entry in changed)} acts in every layer",
                          "nothing to do; its tensor is small")
