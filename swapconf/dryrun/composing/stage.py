"""STUDY + stage number -> STAGE: what of a layout decides the trace of one pipeline stage, and whether two are alike.

Measured with MindSpore 2.9.0 (docs/evidence/composed.md): what a layer holds of a micro-batch depends on tensor,
sequence, context and expert parallelism, on the size of a micro-batch and on the parallel optimizer; in which order it
is made and given back, on the *role* of the stage. MindSpore lets stages take turns, so that two neighbours do not wait
for each other: one of an even number receives before it sends, one of an odd number sends first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from swapconf.config.cluster import Cluster
from swapconf.decide.strategy import LayerStrategy
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.repeated import LAST, LAST_IN_THE_MIDDLE
from swapconf.dryrun.fold.folding import LayerRow, equal, rows_of
from swapconf.dryrun.fold.micro_batches import MicroBatches, micro_batches
from swapconf.dryrun.rank_order import cluster_of
from swapconf.study.study import Study
from swapconf.upstream.conditional import SCHEDULE
from swapconf.words.phrases import mark, phrase

_DENSE_FIRST = "first_k_dense_replace"
# what may differ: it is asked for one by one
_FREE = frozenset(
    {
        "parallel_config.data_parallel",
        "parallel_config.pipeline_stage",
        "parallel_config.micro_batch_num",
        "runner_config.gradient_accumulation_steps",
        "model.model_config.num_layers",
        "model.model_config.num_hidden_layers",
        "model.model_config.offset",
        "parallel.dataset_strategy",
        SCHEDULE,  # refused where it asks for another schedule
    }
)
# what a step does not depend on
_OUTSIDE = ("swap_config", "recompute_config", "output_dir", "seed", "load_checkpoint", "callbacks", "run_mode")


class Role(Enum):
    """What a stage does besides its layers, and in which order it sends and receives."""

    ONLY = mark("the only stage")
    FIRST = mark("the first stage")
    MIDDLE_EVEN = mark("a middle stage with an even number")
    MIDDLE_ODD = mark("a middle stage with an odd number")
    LAST_EVEN = mark("the last stage, with an even number")
    LAST_ODD = mark("the last stage, with an odd number")

    @property
    def is_middle(self) -> bool:
        return self in (Role.MIDDLE_EVEN, Role.MIDDLE_ODD)

    @property
    def last_pairs(self) -> int:
        """How many pairs of passes show the end of the steady part, see `repeated`."""
        return LAST_IN_THE_MIDDLE if self.is_middle else LAST


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Stage ``number`` of the layout that ``study`` has. Asked once for each pair of stages that may be alike."""

    study: Study
    number: int

    @cached_property
    def cluster(self) -> Cluster:
        return cluster_of(self.study.document)

    @property
    def num_stages(self) -> int:
        return self.cluster.num_stages

    @cached_property
    def role(self) -> Role:
        if self.num_stages == 1:
            return Role.ONLY
        if self.number == 0:
            return Role.FIRST
        is_odd = self.number % 2 > 0
        if self.number == self.num_stages - 1:
            return Role.LAST_ODD if is_odd else Role.LAST_EVEN
        return Role.MIDDLE_ODD if is_odd else Role.MIDDLE_EVEN

    @cached_property
    def schedule(self) -> MicroBatches:
        return micro_batches(self.study.document, self.study.config.pipeline)

    @property
    def micro_batches(self) -> int:
        return self.schedule.count

    def in_flight(self, count: int) -> int:
        """Micro-batches that it keeps at once, of so many in a step."""
        return min(count, self.num_stages - self.number)

    @property
    def rank(self) -> int:
        """The first of the stage; its ranks do not differ in what they hold."""
        return self.cluster.first_ranks()[self.number]

    @cached_property
    def rows(self) -> tuple[LayerRow, ...]:
        """Equal layers of the stage that follow each other. Raises CannotCompose where layers are not told apart."""
        strategy = self.study.strategy
        if strategy is None:
            raise CannotCompose(self.study.why_no_strategy)
        dense = self.study.config.model.settings.get(_DENSE_FIRST)
        return tuple(row for row in rows_of(strategy, self.number, dense if isinstance(dense, int) else 0) if row.own)

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What has to be the same, by dotted key."""
        settings: Any = self.study.document.root.plain()
        return {key: value for key, value in _flat(settings) if key not in _FREE and not key.startswith(_OUTSIDE)}

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of its rows. Raises CannotCompose."""
        return tuple(row.length for row in self.rows)

    def layer(self, index: int) -> LayerStrategy:
        assert self.study.strategy is not None
        return self.study.strategy.layers[index]


def check_alike(source: Stage, target: Stage) -> None:
    """Raises CannotCompose where a trace of the one does not tell that of the other."""
    if source.role is not target.role:
        raise CannotCompose(
            phrase(
                "the run is of {source}, and asked for is {target}",
                source=phrase(source.role.value),
                target=phrase(target.role.value),
            )
        )
    for one in (source, target):
        _check_schedule(one)
        _check_strategy(one)
    if source.num_stages == 1 and (source.micro_batches > 1) != (target.micro_batches > 1):
        raise CannotCompose(phrase("a step without accumulation is another one than that with it"))
    here, there = source.settings, target.settings
    if here != there and (
        differing := sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
    ):
        raise CannotCompose(phrase("{key} differs from that of the run", key=differing[0]))
    _check_data_parallel(source, target)
    mine, other = source.rows, target.rows
    if len(mine) != len(other) or not all(
        equal(source.layer(one.first), target.layer(two.first)) for one, two in zip(mine, other, strict=True)
    ):
        raise CannotCompose(phrase("its layers are not the same, one after another, as in the run"))


def _check_schedule(stage: Stage) -> None:
    if stage.study.config.pipeline.num_interleaves > 1:
        raise CannotCompose(phrase("the passes of an interleaved pipeline were not measured"))
    if stage.schedule.why_not:
        raise CannotCompose(stage.schedule.why_not)


def _check_strategy(stage: Stage) -> None:
    """What is swapped or recomputed was not measured, and need not be: what-if tells it of a composed trace."""
    if any(stage.layer(row.first).plan.asked for row in stage.rows):
        raise CannotCompose(
            phrase("something is swapped or recomputed: compose it without, and ask what-if of that trace")
        )


def _check_data_parallel(source: Stage, target: Stage) -> None:
    here, there = source.cluster.data_parallel, target.cluster.data_parallel
    if here == there:
        return
    if 1 in (here, there):
        raise CannotCompose(phrase("with data_parallel 1 no gradients are added up, with more they are"))
    if target.settings.get("parallel.enable_parallel_optimizer"):
        raise CannotCompose(phrase("with the parallel optimizer a rank holds another share of the weights"))
    if (target.settings.get("parallel_config.expert_parallel") or 1) > 1:
        raise CannotCompose(phrase("with expert_parallel a rank shares its experts with others"))


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and name not in _FREE:
            yield from _flat(value, f"{name}.")
        else:
            yield name, value
