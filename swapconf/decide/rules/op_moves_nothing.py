r"""op-moves-nothing: a swap of operators whose output the backward pass does not read, so that nothing is moved.

MindSpore moves a tensor only when its producer is flagged and a backward operator reads it directly. Many operators
sit before a reshape that owns the saved tensor. mindformers logs "Set op_swap" all the same. Which outputs are read
is part of the catalog, taken from the compiled graph of each family.

Fails on Llama: ``op_name: 'feed_forward\.mul'``. Passes: ``op_name: feed_forward``, or ``feed_forward\.mul`` where
``feed_forward\.w2`` is recomputed: what runs again in the backward pass reads it there (R2-recomputed-consumer).
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from swapconf.config.config import ListedSwap, OpSwap
from swapconf.decide.patterns import primitives_below
from swapconf.decide.requests import operators
from swapconf.decide.rules.case import Case, finding
from swapconf.decide.strategy import Recompute, Swap
from swapconf.words.findings import Finding, Severity
from swapconf.words.phrases import phrase, plural

RULE = "op-moves-nothing"


def check(case: Case) -> Iterator[Finding]:
    swap = case.config.swap
    for entry in swap.op_swap if isinstance(swap, ListedSwap) else ():
        flagged = [
            primitive
            for template in case.templates_at(entry.layers)
            for path in operators(entry.pattern, template)
            for primitive in primitives_below(path, template)
        ]
        idle = bool(flagged) and all(primitive.saved is False for primitive in flagged)
        if idle and not _read_by_what_runs_again(case, entry, {primitive.path for primitive in flagged}):
            unused = all(primitive.executed is False for primitive in flagged)
            why = (
                phrase("they do not run in this model")
                if unused
                else phrase("the backward pass does not read their output")
            )
            count = len({primitive.path for primitive in flagged})
            yield finding(
                RULE,
                Severity.WARNING,
                entry.origin,
                plural(
                    count,
                    "'{pattern}' flags {count} operator but moves nothing: {why}",
                    "'{pattern}' flags {count} operators but moves nothing: {why}",
                    pattern=entry.pattern,
                    why=why,
                ),
                phrase("swap the cell around them, or an operator whose output is read (see `swapconf explain`)"),
            )


def _read_by_what_runs_again(case: Case, entry: OpSwap, flagged: Set[str]) -> bool:
    """Whether, in one of its layers, an operator that is recomputed reads the output of one that is flagged. A catalog
    also names readers that a layout does not have, such as communication."""
    layers = case.chosen(entry.layers)
    return any(
        isinstance(decision.action, Swap)
        and any(
            isinstance(read.action, Recompute)
            for reader in template.by_path[path].consumers
            if (read := one.plan.decisions.get(reader)) is not None
        )
        for one in (case.strategy.layers if case.strategy is not None else ())
        if one.layer.index in layers
        for template in [one.layer.template]
        for path, decision in one.plan.decisions.items()
        if path in flagged
    )
