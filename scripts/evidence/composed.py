"""Composed traces against dry runs, on random stages: the table of docs/evidence/composed.md.

    python scripts/evidence/composed.py FOLDER [--seed 52] [--cases 60] [--list] [--only NAME]

Each case is a stage of a random layout: its role, layers, micro-batches, stages and data parallelism. ``--list`` says
which runs they take, beside two of each role with few layers; ``--only`` makes one of them, so that several can be made
at once. Without either, all runs in FOLDER are composed from each other, in every way in which that is possible.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from swapconf.config import overrides
from swapconf.config.nodes import from_plain, nowhere
from swapconf.dryrun.composing.composed import Source, composed
from swapconf.dryrun.composing.reason import CannotCompose
from swapconf.dryrun.composing.stage import Role, Stage
from swapconf.dryrun.fold import folded
from swapconf.dryrun.rank_order import RankOrder, cluster_of
from swapconf.study.settings import NONE
from swapconf.study.study import study_for_run
from swapconf.trace import run_record, trace_folder

ROOT = Path(__file__).parents[2]
ROLES = ("first", "middle, odd", "middle, even", "last", "only")
_MODEL: Mapping[str, Any] = {"hidden_size": 512, "vocab_size": 4096, "seq_length": 1024}
_MCORE: Mapping[str, Any] = {
    **_MODEL,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 1536,
    "max_position_embeddings": 1024,
}
_LEGACY: Mapping[str, Any] = {**_MODEL, "num_heads": 8}


@dataclass(frozen=True, kw_only=True)
class Base:
    """What all stages that are composed of the same runs share. ``data``: degrees of data parallelism to draw from,
    first that of the runs."""

    name: str
    config: str
    model: Mapping[str, Any]
    layers_key: str
    inputs: int
    data: tuple[int, ...]
    sequence_parallel: bool = False
    model_parallel: int = 2


BASES = (
    Base(
        name="qwen3",
        config="configs/small/qwen3_default_swap.yaml",
        model=_MCORE,
        layers_key="num_hidden_layers",
        inputs=4,
        data=(1,),
    ),
    Base(
        name="llama",
        config="configs/llama2_7b/example1_default_swap.yaml",
        model=_LEGACY,
        layers_key="num_layers",
        inputs=0,
        data=(2, 4),
        sequence_parallel=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One stage of a layout: ``layers`` in it, one in every other."""

    base: Base
    role: str
    stages: int
    stage: int
    layers: int
    micro_batches: int
    data: int

    @property
    def name(self) -> str:
        layout = f"{self.base.name}.dp{self.data}pp{self.stages}.stage{self.stage}"
        return f"{layout}.layers{self.layers}.mb{self.micro_batches}"

    @property
    def rank(self) -> int:
        return self.stage * self.data * self.base.model_parallel

    def changes(self) -> tuple[str, ...]:
        total = self.layers + self.stages - 1
        shares = [self.layers if stage == self.stage else 1 for stage in range(self.stages)]
        offset = [share - total // self.stages for share in shares]
        settings: dict[str, Any] = {f"model.model_config.{key}": value for key, value in self.base.model.items()}
        settings |= {
            f"model.model_config.{self.base.layers_key}": total,
            "model.model_config.offset": offset if self.stages > 1 else 0,
            "parallel_config.data_parallel": self.data,
            "parallel_config.model_parallel": self.base.model_parallel,
            "parallel_config.pipeline_stage": self.stages,
            "parallel_config.use_seq_parallel": self.base.sequence_parallel,
            "parallel_config.micro_batch_num": self.micro_batches if self.stages > 1 else 1,
            "runner_config.gradient_accumulation_steps": self.micro_batches if self.stages == 1 else 1,
            "swap_config": {"swap": False},
            "recompute_config.recompute": False,
            "recompute_config.select_recompute": False,
            "recompute_config.select_comm_recompute": False,
        }
        if self.base.inputs:
            settings["parallel.dataset_strategy"] = [[self.data, 1]] * self.base.inputs
        return tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())

    @property
    def sources(self) -> tuple[Shape, ...]:
        """The runs that it is composed of: two and three layers of the same role, four stages, eight micro-batches."""
        stages = 1 if self.role == "only" else 4
        stage = {"middle, odd": 1, "middle, even": 2, "last": 3}.get(self.role, 0)
        return tuple(
            replace(self, stages=stages, stage=stage, layers=layers, micro_batches=8, data=self.base.data[0])
            for layers in ((2, 4) if self.role == "only" else (2, 3))
        )


def shape(rng: Random, base: Base, role: str) -> Shape:
    """A random stage. MindSpore takes eight devices, or a power of two, or a multiple of eight."""
    data = rng.choice(base.data)
    stages = rng.choice({"first": (2, 4), "last": (2, 4), "only": (1,)}.get(role, (4,)))
    if role == "middle, odd" and data * base.model_parallel % 8 == 0 and rng.random() < 0.5:
        stages = 3
    return Shape(
        base=base,
        role=role,
        stages=stages,
        stage={"middle, odd": 1, "middle, even": 2, "last": stages - 1}.get(role, 0),
        layers=rng.randint(2, 6) // (2 if role == "only" else 1) * (2 if role == "only" else 1),
        micro_batches=rng.randint(max(stages, 2), 12),
        data=data,
    )


def shapes(seed: int, count: int) -> tuple[Shape, ...]:
    """So many different ones, the bases and roles in turns, none of them a source."""
    rng, found = Random(seed), dict[str, Shape]()
    turn = 0
    while len(found) < count:
        one = shape(rng, BASES[turn % len(BASES)], ROLES[turn // len(BASES) % len(ROLES)])
        turn += 1
        if one.name not in {source.name for source in one.sources}:
            found.setdefault(one.name, one)
    return tuple(found.values())


def runs(cases: Sequence[Shape]) -> tuple[Shape, ...]:
    """All that have to be run, sources first."""
    sources = {source.name: source for one in cases for source in one.sources}
    return (*sources.values(), *(one for one in cases if one.name not in sources))


def order(one: Shape, folder: Path) -> RankOrder:
    document = overrides.read(["--config", str(ROOT / one.base.config)], one.changes())
    assert document is not None
    return RankOrder(document=document, rank=one.rank, keep=folder)


def make(one: Shape, folder: Path) -> None:
    """A run, into a folder that appears only when it is whole."""
    target, work = folder / one.name, folder / f".{one.name}"
    if target.exists():
        return
    shutil.rmtree(work, ignore_errors=True)
    report = folded.dry_run(order(one, work))
    if not report.outcome.good:
        raise SystemExit(f"{one.name}: {report.outcome.value}: {report.detail}")
    (inner,) = work.glob("rank_*")
    inner.rename(target)
    shutil.rmtree(work)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A dry run in a folder, whole."""

    folder: Path
    source: Source

    @property
    def layers(self) -> int:
        return sum(row.length for row in self.source.stage.rows)

    @property
    def words(self) -> str:
        stage = self.source.stage
        cluster = cluster_of(stage.study.document)
        place = f"stage {stage.number} of {cluster.num_stages}, " if cluster.num_stages > 1 else ""
        return f"{place}{self.layers} layers, {self.source.micro_batches} micro-batches, dp{cluster.data_parallel}"


def kept(folder: Path) -> Kept:
    record = run_record.read(folder)
    document = from_plain(record["settings"], nowhere(record["report"]["file"]))
    stage = Stage(study=study_for_run(document, os.environ, NONE), number=record["report"]["stage"])
    return Kept(
        folder=folder,
        source=Source(
            stage=stage,
            trace=trace_folder.read(folder, record["report"]["rank"]),
            micro_batches=stage.micro_batches,
            pool=run_record.pool(folder),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Row:
    """``used``, ``fragments``: differences as shares of the true figures."""

    target: Kept
    sources: tuple[Kept, ...]
    used: float
    fragments: float


def ways(target: Kept, runs: Sequence[Kept]) -> Iterator[tuple[Kept, ...]]:
    """What it could be composed from: each other run of as many layers, each two runs of one layout with fewer."""
    others = [one for one in runs if one is not target and one.source.stage.role is target.source.stage.role]
    yield from ((one,) for one in others if one.layers == target.layers)
    for one, two in permutations(others, 2):
        seats = {(item.source.stage.num_stages, item.source.micro_batches) for item in (one, two)}
        if one.layers < two.layers < target.layers and len(seats) == 1:
            yield one, two


def rows(runs: Sequence[Kept]) -> Iterator[Row]:
    """Of all that compose; what is refused is counted by its reason, and told."""
    refused: Counter[str] = Counter()
    for target in runs:
        for sources in ways(target, runs):
            try:
                found = composed(target.source.stage, [one.source for one in sources]).trace
            except CannotCompose as reason:
                refused[str(reason)] += 1
                continue
            truth = target.source.trace
            yield Row(
                target=target,
                sources=sources,
                used=found.used_peak_bytes / truth.used_peak_bytes - 1,
                fragments=found.with_fragments_peak_bytes / truth.with_fragments_peak_bytes - 1,
            )
    for words, count in refused.most_common():
        print(f"refused {count} times: {words}", flush=True)


def line(one: Row) -> str:
    told, source = one.target, one.sources[-1].source
    layers = " and ".join(str(item.layers) for item in one.sources)
    return (
        f"| {told.source.stage.role.value} | {told.words} | {layers} layers, {source.micro_batches} micro-batches, "
        f"{source.in_flight} in flight | {told.source.in_flight} | {one.used:+.4%} | {one.fragments:+.3%} |"
    )


def summary(found: Sequence[Row]) -> Iterator[str]:
    yield "| role | composed | used peak: median | lowest | highest | with fragments: median | lowest | highest |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for role in (None, *Role):
        mine = [one for one in found if role in (None, one.target.source.stage.role)]
        if mine:
            parts = [f"| {role.value if role else 'all'} | {len(mine)}"]
            for figures in ([one.used for one in mine], [one.fragments for one in mine]):
                parts.append(f"{statistics.median(map(abs, figures)):.4%} | {min(figures):+.4%} | {max(figures):+.4%}")
            yield " | ".join(parts) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=52)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cases, folder = shapes(options.seed, options.cases), options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.list:
        print("\n".join(one.name for one in runs(cases)))
        return
    if options.only:
        for one in runs(cases):
            if one.name == options.only:
                make(one, folder)
        return
    records = sorted(folder.rglob(run_record.FILE))
    good = [path.parent for path in records if run_record.report(path.parent).get("outcome") == "completed"]
    found = []
    for row in rows([kept(place) for place in good]):
        found.append(row)
        print(line(row), flush=True)
    print("\n".join(("", *summary(found))))


if __name__ == "__main__":
    main()
