r"""R1-recompute-wins: where an operator is both swapped and recomputed, recompute takes effect and swap does not.

MindSpore decides per primitive, so this also holds where the two overlap by an ancestor, a descendant or a regular
expression. What is left of the swap still takes effect. An operator that ``select_recompute_exclude`` names is neither
recomputed nor swapped: the exclusion is a flag for recompute, too, and what it reads stays on the device with it.
What the model itself excludes from every recompute, as routers of experts do, is not swapped inside what is recomputed.
A note only, where all that is recomputed is inside of what a swap names: the way to swap the rest of a layer or cell.
Source: documented (Fine-Grained Activations SWAP, rule 1), measured with MindSpore 2.9.0.

Fails::

    swap_config: {swap: True, op_swap: [{op_name: attention, backward_prefetch: 10, layers: True}]}
    recompute_config: {recompute: [1]}

Passes: the same with ``layers: [0, 2, 3]``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from swapconf.decide.patterns import primitives_below
from swapconf.decide.rules.case import Case, finding, ranges
from swapconf.decide.strategy import LayerStrategy, Recompute
from swapconf.words.findings import Finding, Origin, Severity
from swapconf.words.phrases import joined, phrase

RULE = "R1-recompute-wins"


def check(case: Case) -> Iterator[Finding]:
    void: dict[Origin, set[int]] = defaultdict(set)
    cut: dict[Origin, set[int]] = defaultdict(set)
    clashes: set[Origin] = set()  # the swaps of which recompute takes more than something inside
    causes: dict[Origin, dict[str, None]] = defaultdict(dict)
    for layer, origin, reason in case.void_entries():
        if reason.rule == RULE:
            void[origin].add(layer)
            if not case.templates:  # no operator is known, so it can be the whole layer only
                causes[origin].setdefault(phrase("the whole layer"))
    for entry in case.strategy.layers if case.strategy else ():
        for path, decision in entry.plan.decisions.items():
            if decision.reason.rule != RULE or decision.requested is None:
                continue
            if _clashes(entry, path, decision.requested.operator):
                clashes.add(decision.requested.origin)
            if not isinstance(decision.action, Recompute):
                cut[decision.requested.origin].add(entry.layer.index)
                for cause in _causes(entry, path):
                    causes[decision.requested.origin].setdefault(cause)
                continue
            by_model = decision.action.root == path and entry.layer.template.by_path[path].preset_recompute
            if not by_model:  # what the model recomputes by itself is no clash in the YAML
                cut[decision.requested.origin].add(entry.layer.index)
                causes[decision.requested.origin].setdefault(decision.action.root or phrase("the whole layer"))
    for origin in {**void, **cut}:
        cause = joined(", ", causes[origin]) or phrase("an operator that the model itself recomputes")
        meant = not void[origin] and origin not in clashes
        yield finding(
            RULE,
            Severity.NOTE if meant else Severity.WARNING,
            origin,
            _message(void[origin], cut[origin] - void[origin], cause),
            phrase("nothing to do if the rest was to be swapped")
            if meant
            else phrase("take these layers out of one of the two"),
        )


def _clashes(entry: LayerStrategy, path: str, swapped: str) -> bool:
    """Whether the recompute at an operator is not one of something inside of what the swap names."""
    action, primitive = entry.plan.decisions[path].action, entry.layer.template.by_path[path]
    if isinstance(action, Recompute):
        by_model = action.root == path and primitive.preset_recompute
        return not by_model and not _is_inside(action.root, swapped)
    around = [
        request.operator
        for request in entry.plan.asked
        if request.kind in ("recompute", "select_recompute")
        and primitive in primitives_below(request.operator, entry.layer.template)
    ]
    flagged = entry.plan.excluded
    return any(operator in flagged for operator in (path, *primitive.consumers)) or not all(
        _is_inside(operator, swapped) for operator in around
    )


def _is_inside(operator: str, around: str) -> bool:
    return operator.startswith(f"{around}.") if around else bool(operator)


def _causes(entry: LayerStrategy, path: str) -> Iterator[str]:
    """Why an operator is kept that is not recomputed itself: an exclusion at it or at what reads it, else what it is
    left out of."""
    template, flagged = entry.layer.template, entry.plan.excluded
    for operator in (path, *template.by_path[path].consumers):
        if operator in flagged:
            yield phrase("{operator} (excluded, which is a flag for recompute, too)", operator=operator)
    if path in flagged:
        return
    if path in entry.plan.handed_on:
        yield entry.plan.handed_on[path]
    for request in entry.plan.asked:
        is_recompute = request.kind in ("recompute", "select_recompute")
        if is_recompute and template.by_path[path] in primitives_below(request.operator, template):
            yield request.operator or phrase("the whole layer")


def _message(lost: set[int], partly: set[int], cause: str) -> str:
    if not partly:
        return phrase(
            "this swap has no effect in {lost}: recomputed there: {cause}; recompute wins over swap",
            lost=ranges(lost),
            cause=cause,
        )
    if not lost:
        return phrase(
            "this swap is cut short in {partly}: recomputed there: {cause}; recompute wins over swap",
            partly=ranges(partly),
            cause=cause,
        )
    return phrase(
        "this swap has no effect in {lost} and is cut short in {partly}: recomputed there: {cause}; "
        "recompute wins over swap",
        lost=ranges(lost),
        partly=ranges(partly),
        cause=cause,
    )
