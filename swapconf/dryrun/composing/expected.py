"""ORDER -> OFFERS: what a dry run will leave behind that other stages can be composed from, before it is started."""

from __future__ import annotations

from swapconf.dryrun.composing.offers import Offer
from swapconf.dryrun.composing.stage import Stage
from swapconf.dryrun.fold.folding import CannotFold
from swapconf.dryrun.fold.orders import plans
from swapconf.dryrun.rank_order import RankOrder


def expected(order: RankOrder, stage: Stage) -> tuple[Offer, ...]:
    """First the trace of the whole stage, then those of the parts, where it is folded as is tried first. ``stage``:
    that of the order."""
    try:
        if not order.fold:
            raise CannotFold
        fold = plans(order, stage.study)[0]
    except CannotFold:
        return (Offer(stage=stage, micro_batches=stage.micro_batches),)
    parts = (
        Offer(
            stage=stage,
            micro_batches=size.micro_batches,
            of_rows=tuple(left for row, left in zip(fold.rows, size.layers, strict=True) if row.own),
        )
        for size in fold.runs
    )
    return (Offer(stage=stage, micro_batches=fold.small.micro_batches), *parts)
