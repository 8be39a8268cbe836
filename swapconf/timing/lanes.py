"""RANK TIMELINE -> LANES: what a picture of a step shows of one rank, by what it occupies."""

from __future__ import annotations

import numpy as np

from swapconf.timing.timeline import memory
from swapconf.timing.timeline_view import Lane, RankLanes
from swapconf.timing.timing import KINDS, RankTimeline
from swapconf.trace.lifetimes import Lifetimes


def lanes(line: RankTimeline, stage: int, live: Lifetimes | None = None) -> RankLanes:
    """Kernels that take no time are left out. ``live``: None where memory is not known over the clock."""
    timeline = line.timeline
    program = timeline.program
    takes = timeline.end_us > timeline.start_us
    rows = [np.flatnonzero(takes & (program.kind == kind)) for kind in range(len(KINDS))]
    rows = [row[np.argsort(timeline.start_us[row], kind="stable")] for row in rows]
    shown = np.unique(np.concatenate([*rows, line.staller]))
    code = np.zeros(len(program), dtype=np.int32)
    code[shown] = np.arange(len(shown))
    at_us, used = memory(timeline, live) if live is not None else (np.zeros(0), np.zeros(0, dtype=np.int64))
    # what is there before the first launch is there from the start, however long the rank waits for others
    at_us = np.where(at_us <= timeline.start_us[program.stream == program.main_stream].min(initial=np.inf), 0.0, at_us)
    return RankLanes(
        rank=line.rank,
        stage=stage,
        names=tuple(program.names[kernel] for kernel in shown.tolist()),
        lanes=tuple(
            Lane(
                kind=kind,
                start_us=timeline.start_us[row],
                end_us=timeline.end_us[row],
                name=code[row],
                exposed_us=timeline.exposed_us[row],
            )
            for kind, row in zip(KINDS, rows, strict=True)
            if len(row)
        ),
        stalls_us=line.stalls_us,
        staller=code[line.staller],
        staller_kind=program.kind[line.staller],
        bubbles_us=line.bubbles_us,
        memory_us=at_us,
        memory_bytes=used,
    )
