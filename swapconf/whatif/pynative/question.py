"""One trace of a PyNative run without swap and recompute, asked what a config would do to its memory.

The trace of one card has the answer of a run which recomputes and swaps as mindformers does on several; that of one of
several ranks, of any layout, has the answer of that rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from swapconf.config.config import Config, ListedSwap
from swapconf.decide.modules import modules_of
from swapconf.memory.allocators.mindspore import place
from swapconf.memory.marked_lifetimes import marked_lifetimes
from swapconf.memory.memory_view import EntryTotal
from swapconf.memory.replay import replay
from swapconf.study.study import Study
from swapconf.trace import run_record, trace_folder
from swapconf.trace.lifetimes import Lifetimes, Placement
from swapconf.trace.marked_passes import Pass
from swapconf.trace.marks import FILE, moved_by
from swapconf.whatif.belongs import other_run
from swapconf.whatif.pynative.intervals import steps
from swapconf.whatif.pynative.layout import Layout, Rules
from swapconf.whatif.pynative.parts import NotPredicted, Parts, parts
from swapconf.whatif.pynative.predict import NativePrediction, predict, safe_peak_bytes
from swapconf.words.findings import Origin
from swapconf.words.phrases import phrase

ORIGIN = phrase(
    "what-if from a dry run of one card in PyNative mode, as of a run that recomputes and swaps as mindformers does on "
    "several cards"
)
OF_RANK = phrase("what-if from a dry run of one of several ranks in PyNative mode")
RACING = phrase(
    "on shards threads race, so that two runs differ; with `dryrun --launch-blocking` they are the same, and hold "
    "what the fullest card does"
)


class NativeMismatch(ValueError):
    """The trace and the config do not belong together, or the answer is not known; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerTotal:
    """What one layer holds at the peaks, without and with the config, and what it does in a step."""

    layer: int
    before_bytes: int
    used_bytes: int
    moved_bytes: int
    recomputed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeAnswer:
    """``placement``: see `NativeQuestion.placement`. ``safe_bytes``: a peak that the true dry run does not exceed."""

    prediction: NativePrediction
    placement: Placement | None
    safe_bytes: int
    baseline_peak_bytes: int
    entries: tuple[EntryTotal, ...]
    layers: tuple[LayerTotal, ...]
    launches_blocked: bool

    @property
    def moved_bytes(self) -> int:
        return sum(self.prediction.moved_bytes.values())

    @property
    def recomputed(self) -> int:
        return sum(self.prediction.kernels.values())


class NativeQuestion:
    """``launches_blocked``: as each operator ended before Python went on, two runs on shards are the same. Raises
    SwapconfError for files that cannot be read, NativeMismatch where the trace is no baseline."""

    def __init__(self, folder: Path, study: Study) -> None:
        trace = trace_folder.read(folder, rank=0)
        making = f"swapconf dryrun {study.config.file} --keep DIR"
        if not trace.marks:
            raise NativeMismatch(
                phrase("the trace has no marks, so it is none of PyNative mode; make one: {command}", command=making)
            )
        recorded = run_record.read(folder).get("settings")
        if other := other_run(study, trace, recorded if isinstance(recorded, dict) else {}):
            raise NativeMismatch(
                phrase("{reason}; make a trace of this config: {command}", reason=other, command=making)
            )
        moved, _ = moved_by(Path(trace.folder) / FILE)
        if moved or any(stretch.what is Pass.RECOMPUTED for stretch in trace.passes.stretches):
            raise NativeMismatch(
                phrase(
                    "the run of this trace has recomputed or swapped; make one that does not: {command}", command=making
                )
            )
        self.steps = steps(trace.marks)
        if not self.steps:
            raise NativeMismatch(phrase("the trace has no whole step; make one again: {command}", command=making))
        self.trace, self._config = trace, study.config
        degree = study.document.entry_at("parallelism.pipeline_parallel")
        self._is_pipeline = degree is not None and degree.value.scalar not in (None, 1)
        self._known = modules_of(study.config, study.versions.mindformers)
        self.layout, self._device = Layout(trace, self.steps, Rules.of(study.versions)), marked_lifetimes(trace)
        self._pool = replay(trace, self._device, run_record.pool(folder))
        self.launches_blocked = run_record.report(folder).get("launch_blocking") is True

    def predict(self, config: Config) -> NativePrediction:
        """Raises NativeMismatch for what is not predicted."""
        whole = len({self.trace.passes.at(step.backward).step for step in self.steps})
        return predict(self.layout, self.steps, self._device, self.parts(config), whole)

    def safe_peak_bytes(self, config: Config) -> int:
        """A peak that the true dry run does not exceed. Raises NativeMismatch for what is not predicted."""
        return safe_peak_bytes(self.layout, self.steps, self.parts(config))

    def placement(self, found: NativePrediction) -> Placement | None:
        """Where the pool would put the blocks; None where its rules do not tell where it put those of the trace."""
        return place(found.device, self._pool.pool) if self._pool.is_exact else None

    def parts(self, config: Config) -> Parts:
        """Raises NativeMismatch for what is not predicted."""
        try:
            found = parts(config, self.steps, self._known)
        except NotPredicted as error:
            raise NativeMismatch(str(error)) from None
        if found.moved and self._is_pipeline:
            raise NativeMismatch(
                phrase(
                    "a swap in a pipeline is not predicted: mindformers stops at it; recompute of layers is predicted"
                )
            )
        return found

    def answer(self) -> NativeAnswer:
        found = self.predict(self._config)
        return NativeAnswer(
            prediction=found,
            placement=self.placement(found),
            safe_bytes=self.safe_peak_bytes(self._config),
            baseline_peak_bytes=self._device.used_peak_bytes,
            entries=tuple(self._entry(found, *entry) for entry in _entries(self._config)),
            layers=tuple(self._layers(found)),
            launches_blocked=self.launches_blocked,
        )

    def _entry(self, whole: NativePrediction, origin: Origin, text: str, without: Config) -> EntryTotal:
        rest = self.predict(without)
        return EntryTotal(
            origin=origin,
            text=text,
            saved_bytes=rest.used_peak_bytes - whole.used_peak_bytes,
            moved_bytes=sum(whole.moved_bytes.values()) - sum(rest.moved_bytes.values()),
            recomputed=sum(whole.kernels.values()) - sum(rest.kernels.values()),
        )

    def _layers(self, found: NativePrediction) -> Iterator[LayerTotal]:
        before, after = _at_peak(self._device), _at_peak(found.device)
        for layer in sorted({one.layer for step in self.steps for one in step.passes}):
            yield LayerTotal(
                layer=layer,
                before_bytes=before.get(layer, 0),
                used_bytes=after.get(layer, 0),
                moved_bytes=found.moved_bytes.get(layer, 0),
                recomputed=found.kernels.get(layer, 0),
            )


def _at_peak(device: Lifetimes) -> Mapping[int, int]:
    """Bytes by layer at the first moment of the peak."""
    time = device.used.peak_time
    there = (device.start <= time) & (device.end > time)
    layers, place_of = np.unique(device.layer[there], return_inverse=True)
    sums = np.bincount(place_of, weights=device.size_bytes[there], minlength=len(layers))
    return dict(zip(layers.tolist(), sums.astype(np.int64).tolist(), strict=True))


def _entries(config: Config) -> Iterator[tuple[Origin, str, Config]]:
    """Every entry with the config that lacks it."""
    swap, again = config.swap, config.recompute
    if isinstance(swap, ListedSwap):
        for index, layer in enumerate(swap.layer_swap):
            rest = replace(swap, layer_swap=swap.layer_swap[:index] + swap.layer_swap[index + 1 :])
            yield layer.origin, "layer_swap", replace(config, swap=rest)
    if again.full is not None:
        yield again.full.origin, "recompute", replace(config, recompute=replace(again, full=None))
    for index, chosen in enumerate(again.select):
        less = replace(again, select=again.select[:index] + again.select[index + 1 :])
        yield chosen.origin, f"select_recompute {chosen.pattern}", replace(config, recompute=less)
