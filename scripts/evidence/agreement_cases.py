"""SEED -> CASES: random strategies on random shapes, several on each shape, so that they share a baseline.

``S:I`` names case I of seed S; it is the same case, however many are asked for. What `swapconf check` refuses is drawn
again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any

from random_shapes import FAMILIES, NO_STRATEGY, NOTHING_SWAPPED, ROOT, Shape, shape
from random_strategies import strategy

from swapconf.config import overrides
from swapconf.config.nodes import Document
from swapconf.models.network import Network
from swapconf.study.settings import Settings
from swapconf.study.study import Study, network_of, study_document
from swapconf.upstream import dropped
from swapconf.upstream.facts import Versions
from swapconf.words.findings import has_errors

PER_SHAPE = 6
_LENGTHS = ("seq_length", "max_position_embeddings")
AS_WRITTEN = Settings(apply=dropped.KEYS)  # what mindformers drops counts here, so that it is tried as well


@dataclass(frozen=True, kw_only=True)
class Case:
    """``kind``: the parts of the strategy. ``baseline``: the folder of the run without one."""

    seed: int
    number: int
    kind: str
    shape: Shape
    strategy: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.seed}-{self.number}"

    @property
    def baseline(self) -> str:
        name = f"{self.seed}-shape{self.number // PER_SHAPE}"
        return f"{name}-swap-on" if self.is_inlined_otherwise else name

    @property
    def without_strategy(self) -> Document:
        """Of the run that the what-if asks: where swap turns lazy inline on, that is on, and nothing is swapped."""
        return document(self.shape, NOTHING_SWAPPED if self.is_inlined_otherwise else NO_STRATEGY)

    @property
    def is_inlined_otherwise(self) -> bool:
        mine, plain = self.study.strategy, study(document(self.shape)).strategy
        return mine is not None and plain is not None and mine.lazy_inline != plain.lazy_inline

    @property
    def document(self) -> Document:
        return document(self.shape, self.strategy)

    @property
    def study(self) -> Study:
        return study(self.document)

    @property
    def words(self) -> str:
        return "; ".join(f"{key.rpartition('.')[2]}: {json.dumps(value)}" for key, value in self.strategy.items())


def document(asked: Shape, settings: Mapping[str, Any] = NO_STRATEGY) -> Document:
    found = overrides.read(["--config", str(asked.path)], asked.changes(settings))
    assert found is not None
    return found


def study(asked: Document) -> Study:
    return study_document(asked, Versions.in_use(), os.environ, AS_WRITTEN)


def cases(seed: int, count: int, tokens: int = 0, given: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Case]:
    yield from (case(seed, number, tokens, given) for number in range(count))


def case(seed: int, number: int, tokens: int = 0, given: Mapping[str, Any] = MappingProxyType({})) -> Case:
    """``tokens``: of a sequence, other than those that are drawn; ``given``: what else of the shape, by key, as its
    ``jit_level``."""
    drawn = _shape(seed, number // PER_SHAPE)
    drawn = replace(drawn, settings={**drawn.settings, **given})
    if tokens:
        lengths = {key: tokens for key in drawn.settings if key.rpartition(".")[2] in _LENGTHS}
        drawn = replace(drawn, settings={**drawn.settings, **lengths})
    network = _drawn_from(study(document(drawn)))
    for attempt in range(100):
        rng = Random(f"{seed}/case/{number}/{attempt}")
        kind, settings = strategy(rng, network, drawn.num_stages, drawn.num_interleaves)
        found = study(document(drawn, settings))
        if not has_errors(found.findings) and _decides(found):
            return Case(seed=seed, number=number, kind=kind, shape=drawn, strategy=settings)
    raise RuntimeError(f"no strategy for {drawn.family} {drawn.layout} that `check` lets pass")


def _drawn_from(found: Study) -> Network:
    """The operators that a strategy may name: also the collectives that the layers of this layout lack."""
    pipeline = replace(found.config.pipeline, model_parallel=max(found.config.pipeline.model_parallel, 2))
    network = network_of(replace(found.config, pipeline=pipeline), found.versions)
    assert network is not None
    return network


def _decides(found: Study) -> bool:
    """Something takes effect."""
    return found.strategy is not None and any(
        outcome.sites for entry in found.strategy.layers for outcome in entry.plan.outcomes
    )


def families_of(mindformers: str) -> tuple[str, ...]:
    """That a release can build in graph mode: of one with deltas of its own, those that have such a file."""
    deltas = ROOT / "swapconf/models/families" / mindformers
    return tuple(name for name in FAMILIES if not deltas.is_dir() or (deltas / f"{name}.json").exists())


def _shape(seed: int, group: int) -> Shape:
    """Families in turn, in an order by the seed."""
    built = families_of(Versions.in_use().mindformers)
    turn = Random(f"{seed}/families").sample(built, len(built))
    for attempt in range(100):
        found = shape(Random(f"{seed}/shape/{group}/{attempt}"), turn[group % len(turn)])
        judged = study(document(found))
        if not has_errors(judged.findings) and judged.network is not None and not judged.network.approximated:
            return found
    raise RuntimeError(f"no shape that `check` lets pass for {turn[group % len(turn)]}")
