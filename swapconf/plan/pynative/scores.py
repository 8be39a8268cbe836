"""STAGES + STRATEGY -> SCORES: what a PyNative strategy takes on a rank of each stage, as it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swapconf.whatif.pynative.predict import NativePrediction
from swapconf.whatif.pynative.question import NativeQuestion
from swapconf.whatif.pynative.times import NativeTime, NativeTimes


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeStage:
    """``rank``: the first of the stage, whose run it is."""

    rank: int
    question: NativeQuestion
    times: NativeTimes

    @property
    def layers(self) -> frozenset[int]:
        """Of the stage."""
        return frozenset(one.layer for step in self.question.steps for one in step.passes)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageScore:
    """``safe_bytes``: a used peak that the true dry run does not exceed. ``mapped_bytes``: with fragments, None where
    they are not known. ``time``: with the slower link."""

    rank: int
    prediction: NativePrediction
    safe_bytes: int
    mapped_bytes: int | None
    time: NativeTime

    @property
    def pool_bytes(self) -> int:
        """What the pool takes at most, with fragments as far as they are known."""
        return max(self.safe_bytes, self.mapped_bytes or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeScore:
    """A strategy as it is told. ``stages``: of a rank of each. ``host_bytes``: of the host that holds most."""

    stages: tuple[StageScore, ...]
    host_bytes: int
    fits: bool

    @property
    def used_bytes(self) -> int:
        return max(one.prediction.used_peak_bytes for one in self.stages)

    @property
    def safe_bytes(self) -> int:
        return max(one.safe_bytes for one in self.stages)

    @property
    def mapped_bytes(self) -> int | None:
        return _most([one.mapped_bytes for one in self.stages])

    @property
    def moved_bytes(self) -> int:
        """In a step, of a rank of each stage."""
        return sum(sum(one.prediction.moved_bytes.values()) for one in self.stages)

    @property
    def time(self) -> NativeTime:
        return slowest(one.time for one in self.stages)


def slowest(times: Iterable[NativeTime]) -> NativeTime:
    return max(times, key=lambda time: time.step_us)


def _most(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return max(known) if len(known) == len(sizes) else None
