"""STUDY -> LAYOUT: how a YAML of graph mode shares out its model and its batch, as numbers that can be changed.

A step trains ``batch x micro_batches x data`` sequences, times ``micro_batch_interleave_num``, which stays as it is
(mindformers 1.9.0, ``_check_global_batch_size_for_auto_parallel``, trainer/base_trainer.py:201). With stages
``micro_batch_num`` of `parallel_config` tells the micro-batches, without them ``gradient_accumulation_steps`` of
`runner_config`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from swapconf.config.config import Config, Dialect
from swapconf.config.nodes import Document
from swapconf.decide.requests import stage_map
from swapconf.study.study import Study
from swapconf.upstream.conditional import DATA, EXPERTS, SHARDS_OPTIMIZER
from swapconf.words.phrases import phrase

Deal: TypeAlias = tuple[tuple[int, ...], ...]  # [interleave][stage] number of layers
MICRO_BATCHES = "parallel_config.micro_batch_num"
ACCUMULATION = "runner_config.gradient_accumulation_steps"


class NoLayout(ValueError):
    """The YAML shares nothing out, or not in a way that can be changed here; the text says why and what to do."""


@dataclass(frozen=True, order=True, kw_only=True, slots=True)
class Layout:
    """One way to share out a training.

    Attributes:
        data, tensors, stages, contexts, experts: Into how many parts each is cut; experts over cards of ``data`` and
            ``tensors``.
        is_sequence: Sequence parallelism: between products of matrices the sequence is cut over the cards of
            ``tensors``.
        shards_optimizer: The parallel optimizer: weights and their state are cut over the cards of ``data``.
        batch: Sequences of a micro-batch on one card of ``data``.
        micro_batches: Of a step.
        deal: Layers by interleave and stage.
    """

    data: int
    tensors: int
    stages: int
    contexts: int = 1
    experts: int = 1
    is_sequence: bool = False
    shards_optimizer: bool = False
    batch: int = 1
    micro_batches: int = 1
    deal: Deal = ()

    @property
    def cards(self) -> int:
        return self.data * self.tensors * self.contexts * self.stages

    @property
    def interleaves(self) -> int:
        return len(self.deal)

    @property
    def sequences(self) -> int:
        """Of a step, without ``micro_batch_interleave_num``."""
        return self.batch * self.micro_batches * self.data

    @property
    def layers_of_stage(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*self.deal, strict=True)))

    def layers_behind(self, first: int) -> tuple[int, ...]:
        """Of each stage, but for the ``first`` layers of the model."""
        left, found = first, []
        for chunk in self.deal:
            passed = [min(count, max(0, left - sum(chunk[:stage]))) for stage, count in enumerate(chunk)]
            found.append([count - less for count, less in zip(chunk, passed, strict=True)])
            left -= sum(passed)
        return tuple(map(sum, zip(*found, strict=True)))

    @property
    def name(self) -> str:
        """``dp2 tp2 pp2 sp po mb1x8 [3,5]``: a word for what is more than one."""
        degrees = (
            ("dp", self.data),
            ("tp", self.tensors),
            ("pp", self.stages),
            ("cp", self.contexts),
            ("ep", self.experts),
        )
        words = [f"{word}{number}" for word, number in degrees if number > 1] or ["dp1"]
        words += ["sp"] * self.is_sequence + ["po"] * self.shards_optimizer
        words.append(f"mb{self.batch}x{self.micro_batches}")
        if self.interleaves > 1:
            words.append(f"vp{self.interleaves}")
        counts = self.layers_of_stage
        if len(set(counts)) > 1:
            words.append("[" + ",".join(map(str, counts)) + "]")
        return " ".join(words)


def layout_of(study: Study) -> Layout:
    """The layout of a YAML. Raises NoLayout."""
    config, number = study.config, study.config.model.num_layers
    if config.dialect is Dialect.PYNATIVE:
        raise NoLayout(
            phrase(
                "{file}: layouts of PyNative mode are not compared; try one: swapconf dryrun {file} --set "
                "parallelism.tensor_parallel=2",
                file=config.file,
            )
        )
    if config.given.get("use_parallel") is not True:
        raise NoLayout(
            phrase(
                "{file}: this YAML trains on one card: `use_parallel` is not True; to compare layouts of several, give "
                "`--set use_parallel=true` with it",
                file=config.file,
            )
        )
    if config.pipeline.zero_bubble_v:
        raise NoLayout(
            phrase(
                "{file}: layouts of zero_bubble_v are not compared, as its steps are not known to be timed right; "
                "leave `pipeline_scheduler` out",
                file=config.file,
            )
        )
    if number is None:
        raise NoLayout(study.why_no_strategy)
    stages = config.pipeline.num_stages
    told = config.given.get(MICRO_BATCHES) if stages > 1 else config.runtime.gradient_accumulation_steps
    return Layout(
        data=_count(config, *DATA),
        tensors=config.pipeline.model_parallel,
        stages=stages,
        contexts=config.pipeline.context_parallel,
        experts=_count(config, *EXPERTS),
        is_sequence=config.pipeline.sequence_parallel and config.pipeline.model_parallel > 1,
        shards_optimizer=plain(study.document, SHARDS_OPTIMIZER) is True,
        batch=config.runtime.batch_size or 1,
        micro_batches=told if isinstance(told, int) and told > 0 else 1,
        deal=stage_map(config, number).shares,
    )


def first_given(document: Document, paths: Sequence[str]) -> str:
    """The first of the paths at which the YAML has a value, else the first."""
    return next((path for path in paths if plain(document, path) is not None), paths[0])


def plain(document: Document, path: str) -> object:
    """What stands at a path of the YAML; None where nothing does."""
    entry = document.entry_at(path)
    return entry.value.plain() if entry is not None else None


def _count(config: Config, *paths: str) -> int:
    value = next((config.given[path] for path in paths if config.given.get(path) is not None), 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
