"""SAMPLES -> SAMPLE: the memory of a model with many equal layers and micro-batches, from dry runs with fewer of them.

What is in use grows by the same amount with every layer of a row, and with every micro-batch, at each place of the
step. Which place is the highest can change, though: with few layers often the optimizer, with many the end of the
forward pass. So the line is drawn for each place by itself, and the highest one taken. Each of some copies and
recomputed kernels is there once more with every micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from swapconf.dryrun.fold import effects
from swapconf.dryrun.fold.folding import Fold, Size
from swapconf.dryrun.fold.samples import Label, Sample
from swapconf.words.phrases import phrase

_TOLERANCE = 0.001  # of the whole model's peak


def extrapolated(samples: Sequence[Sample], fold: Fold, size: Size) -> Sample:
    """A run of any size (``fold.whole``: the whole model). ``samples``: of ``fold.runs``, in their order. Fragments
    follow no line: theirs is an estimate, on the line of the layers but never below what a run had."""
    small, highest = samples[0], _highest(samples, fold, size)
    used = used_peak_bytes(samples, fold, size)
    host = fold.on_line([one.effect.host_peak_bytes for one in samples], size)
    return Sample(
        size=size,
        highest=highest,
        used_peak_bytes=used,
        with_fragments_peak_bytes=used + _fragments_bytes(samples, fold, size),
        effect=effects.extrapolated(samples, fold, size, host),
        kernels_per_layer=small.kernels_per_layer,
    )


def used_peak_bytes(samples: Sequence[Sample], fold: Fold, size: Size) -> int:
    """That of a run of any size alone."""
    highest = max(_highest(samples, fold, size).values())
    if fold.full_run is None or max(samples[fold.full_run].highest.values()) == samples[fold.full_run].used_peak_bytes:
        return highest
    # the peak is in layers that the other runs do not have
    return max(highest, fold.on_line([one.used_peak_bytes for one in samples], size))


def _fragments_bytes(samples: Sequence[Sample], fold: Fold, size: Size) -> int:
    if fold.full_run is not None:
        return samples[fold.full_run].fragments_bytes
    small = samples[0]
    # more micro-batches add none
    in_layers = fold.on_line(
        [
            one.fragments_bytes if one.size.micro_batches == small.size.micro_batches else small.fragments_bytes
            for one in samples
        ],
        size,
    )
    return max(in_layers, *(one.fragments_bytes for one in samples))


def _highest(samples: Sequence[Sample], fold: Fold, size: Size) -> dict[Label, int]:
    places: set[Label] = reduce(set.intersection, (set(one.highest) for one in samples))
    return {place: fold.on_line([one.highest[place] for one in samples], size) for place in places}


def doubt(samples: Sequence[Sample], whole: Sample, fold: Fold, longest_prefetch: int) -> str:
    """Why the premise needs one more run; empty where it does not."""
    if fold.why_check:
        return fold.why_check
    if not fold.steps or fold.full_run is not None:
        return ""
    if len({one.top for one in (*samples, whole)}) > 1:
        return phrase("the peak moves to another place of the step")
    if whole.kernels_per_layer is not None and 4 * longest_prefetch > whole.kernels_per_layer:
        return phrase("a prefetch reaches over several layers")
    if any(max(run.highest.values()) < run.used_peak_bytes for run in samples):
        return phrase("the peak lies in the middle of the model")
    if any(_in_cells(run) != _in_cells(samples[0]) for run in samples):
        return phrase("the two runs do not have the same places")
    return ""


def _in_cells(run: Sample) -> set[Label]:
    """Places but those of kernels that belong to no cell: into which of these small ones are fused depends on how many
    layers there are."""
    return {place for place in run.highest if place[1].count("/") != 1}


def holds(samples: Sequence[Sample], fold: Fold, measured: Sample) -> bool:
    """Whether a further run, of ``fold.check``, is where the others say, and so is in it the place where the whole
    model has its peak: so near that the whole model is within the tolerance, which is further away by some steps."""
    predicted, whole = extrapolated(samples, fold, fold.check), extrapolated(samples, fold, fold.whole)
    off = max(
        abs(predicted.used_peak_bytes - measured.used_peak_bytes),
        abs(predicted.highest[whole.top] - measured.highest.get(whole.top, 0)),
    )
    further = max(
        (
            far / near
            for far, near, size in zip(fold.distances(fold.whole), fold.distances(fold.check), fold.steps, strict=True)
            if size.layers != fold.small.layers
        ),
        default=1.0,
    )
    moves = predicted.effect.total.num_tensors == measured.effect.total.num_tensors
    again = predicted.effect.recomputed_by_layer == measured.effect.recomputed_by_layer
    return moves and again and off * further <= _TOLERANCE * whole.used_peak_bytes
