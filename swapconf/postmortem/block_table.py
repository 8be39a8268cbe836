"""MEMORY_BLOCK.CSV -> HELD: by the whole trace where the files beside it are there, else by the names alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swapconf.memory.categories import alive, bytes_at_peak, operator_of
from swapconf.memory.trace_lifetimes import OF_PHASE, layer_of, lifetimes, of_parameter
from swapconf.postmortem.held import NUM_BLOCKS, HeldAtPeak, HeldBlock
from swapconf.trace import memory_block, trace_folder
from swapconf.trace.blocks import Blocks
from swapconf.trace.lifetimes import CATEGORIES, NEVER, OF_KIND, Category, Lifetimes
from swapconf.trace.phases import Phase, phase_of_name, phases
from swapconf.trace.trace import Trace
from swapconf.words.findings import SwapconfError

_PARAMETER = "Weight"


def read(path: Path) -> HeldAtPeak:
    """Raises SwapconfError."""
    trace = _trace(path)
    blocks = memory_block.read(path) if trace is None else trace.blocks
    if not isinstance(blocks, Blocks):
        blocks = Blocks.of(blocks)
    rows = np.flatnonzero(~blocks.on_host)
    rows = rows[np.argsort(blocks.start[rows], kind="stable")]
    names = [blocks.nodes[code] for code in blocks.node[rows].tolist()]
    phase = _phases(trace, blocks.start[rows].tolist(), names)
    live = lifetimes(trace) if trace is not None else _by_name(blocks, rows, names, phase)
    peak_time = live.used.peak_time
    at_peak = np.flatnonzero(alive(live, peak_time))
    maker = int(np.searchsorted(live.start, peak_time, side="right")) - 1
    largest = at_peak[np.argsort(-live.size_bytes[at_peak], kind="stable")]

    def held(row: int) -> HeldBlock:
        name = live.names[live.name[row]]
        found = phase[row]
        return HeldBlock(
            size_bytes=int(live.size_bytes[row]),
            name=operator_of(name),
            layer=int(live.layer[row]),
            holds=CATEGORIES[live.category[row]].value,
            phase=found.value if found is not None else "",
        )

    return HeldAtPeak(
        file=str(path),
        kind="memory_block",
        device="",
        num_devices=1,
        peak_bytes=live.used_peak_bytes,
        pool_bytes=int(blocks.pool_peak_bytes[rows[maker]]) or None,
        made_by=held(maker),
        last=held(len(live) - 1),
        by_category=tuple((category.value, size) for category, size in bytes_at_peak(live).items()),
        by_phase=_by_phase(blocks.used_bytes[rows], phase),
        blocks=tuple(held(row) for row in largest[:NUM_BLOCKS].tolist()),
        num_blocks=len(at_peak),
        alive_at_end_bytes=int(live.size_bytes[live.end == NEVER].sum()),
    )


def _trace(path: Path) -> Trace | None:
    """The whole trace; None where its other files are missing or damaged."""
    if path.name != trace_folder.BLOCKS:
        return None
    try:
        return trace_folder.read(path.parent, 0)
    except SwapconfError:
        return None


def _phases(trace: Trace | None, starts: list[int], names: list[str]) -> list[Phase | None]:
    told = phases(trace) if trace is not None else {}
    if told:
        return [told.get(start) for start in starts]
    by_name = {name: phase_of_name(name) for name in set(names)}
    return [by_name[name] for name in names]


def _by_name(blocks: Blocks, rows: NDArray[np.int64], names: list[str], phase: list[Phase | None]) -> Lifetimes:
    """As `lifetimes` of a trace, but what a block holds follows from its kind, and from the name of who made it."""
    distinct = {name: index for index, name in enumerate(dict.fromkeys(names))}
    layers = {name: layer_of(name) for name in distinct}
    kinds = [blocks.kinds[code] for code in blocks.kind[rows].tolist()]
    parameters = {name for name, kind in zip(names, kinds, strict=True) if kind == _PARAMETER}
    categories = [
        of_parameter(name, parameters) if kind == _PARAMETER else _category(kind, found)
        for name, kind, found in zip(names, kinds, phase, strict=True)
    ]
    return Lifetimes(
        start=blocks.start[rows],
        end=blocks.end[rows],
        size_bytes=blocks.size_bytes[rows],
        is_persistent=blocks.is_persistent[rows],
        category=np.array([CATEGORIES.index(one) for one in categories], dtype=np.uint8),
        layer=np.array([layers[name] for name in names], dtype=np.int32),
        name=np.array([distinct[name] for name in names], dtype=np.int32),
        names=tuple(distinct),
    )


def _category(kind: str, phase: Phase | None) -> Category:
    return OF_KIND.get(kind) or (Category.TEMPORARY if phase is None else OF_PHASE[phase])


def _by_phase(used_bytes: NDArray[np.int64], phase: list[Phase | None]) -> tuple[tuple[str, int], ...]:
    """The most in use after an allocation of a phase."""
    codes = np.array([-1 if found is None else list(Phase).index(found) for found in phase], dtype=np.int64)
    return tuple(
        (found.value, int(used_bytes[codes == index].max()))
        for index, found in enumerate(Phase)
        if (codes == index).any()
    )
