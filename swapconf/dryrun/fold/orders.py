"""ORDER -> FOLDS: how the model of a dry run can be folded, if it can."""

from __future__ import annotations

from swapconf.config.config import Dialect
from swapconf.decide.requests import stage_map
from swapconf.dryrun.fold.folding import CannotFold, Fold, cost_of, folds
from swapconf.dryrun.fold.micro_batches import MicroBatches, micro_batches
from swapconf.dryrun.last_graph import is_baseline
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.study.study import Study
from swapconf.upstream.primitives import FUSED_LEVEL
from swapconf.words.phrases import phrase

FOLDED = (1, 2)  # there is nothing to extrapolate at level 0, and the times of level 3 follow no line
_DENSE_FIRST = "first_k_dense_replace"
_SECONDS = 0.9  # that one layer takes to compile, as folds count their cost
FEW_LAYERS = 16  # of a rank: so many are run as they are for MindSpore's graph


def foldable(order: RankOrder) -> bool:
    """Whether it will at least be tried to run something smaller."""
    return order.fold and order.level in FOLDED and bool(_ways(order, order.study(order.document)))


def _ways(order: RankOrder, study: Study) -> tuple[Fold, ...]:
    """`plans`, none where it cannot be folded."""
    try:
        return plans(order, study)
    except CannotFold:
        return ()


def expected_seconds(order: RankOrder) -> tuple[float, float]:
    """About how long a dry run of the order takes: as it is folded, and where a run with all layers of the stage has to
    tell after all, as mostly with experts. Models that were timed on two cores took 0.6 to 1.2 times that.
    """
    study = order.study(order.document)
    ways = _ways(order, study) if order.fold and order.level in FOLDED else ()
    if not ways:
        whole = _cost_of_whole(order, study) * _SECONDS
        return whole, whole
    least = ways[0].cost
    instead = min((one.cost for one in ways[1:] if one.full_run is not None), default=0.0)
    return least * _SECONDS, (least + instead) * _SECONDS


def _cost_of_whole(order: RankOrder, study: Study) -> float:
    layers, stages = study.config.model.num_layers or 0, cluster_of(order.document).num_stages
    return cost_of(layers, -(-layers // stages), micro_batches_of(order, study).count)


def plans(order: RankOrder, study: Study) -> tuple[Fold, ...]:
    """How the model of an order can be folded, in the order in which that is tried. Raises CannotFold."""
    layers, config = study.config.model.num_layers, study.config
    if config.dialect is Dialect.PYNATIVE:
        raise CannotFold(phrase("a run in PyNative mode has no order of execution that a trace could be grown by"))
    if order.plain or layers is None or not layers or stage_map(config, layers).guessed:
        strategy = None  # which layers are equal is only known with swapconf, for a deal that is understood
    else:
        strategy = study.strategy
    dense = config.model.settings.get(_DENSE_FIRST)
    found = folds(
        strategy,
        cluster_of(order.document).stage_of(order.rank),
        micro_batches_of(order, study),
        dense if isinstance(dense, int) else 0,
    )
    if order.keep is None or config.runtime.jit_level != FUSED_LEVEL or not is_baseline(study):
        return found
    # of two and three layers its graph with fused kernels was never grown (docs/evidence/what-if-fused.md)
    return tuple(sorted(found, key=lambda plan: plan.full_run is None or plan.own_layers > FEW_LAYERS))


def micro_batches_of(order: RankOrder, study: Study) -> MicroBatches:
    """Of the step of an order."""
    return micro_batches(order.document, study.config.pipeline)
