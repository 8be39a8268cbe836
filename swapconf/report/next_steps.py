"""PAGE -> COMMAND: what to run after a page was read. Every page ends with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from swapconf.compare.variant import Variant
from swapconf.memory.cluster_view import ClusterView
from swapconf.memory.memory_view import MemoryView
from swapconf.timing.timeline_view import TimelineView
from swapconf.whatif.sweep import Point, best_overall
from swapconf.words.phrases import phrase

_YAML = "train.yaml"
_SWEEP = "--sweep backward_prefetch=1..400"


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """``why``: a sentence; ``command``: a line of a shell, in which `train.yaml` stands for the reader's own where the
    page does not know it."""

    why: str
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Lines of a shell. ``again``: the command that made the page; ``dry_run``: a dry run of the same YAML, with what
    was set otherwise than it says."""

    again: str
    dry_run: str


def after_planning(asked: Asked, why_not: str) -> NextStep:
    """``why_not``: where nothing fits, what to see instead; else ""."""
    if why_not:
        return NextStep(why=why_not, command=f"{asked.dry_run} --ranks stages --html cluster.html")
    return NextStep(
        why=phrase("This is predicted. Confirm it by a dry run, and write it into the YAML:"),
        command=f"{asked.again} --confirm --write",
    )


def next_step(
    views: Sequence[MemoryView], timelines: Sequence[TimelineView], variants: Sequence[Variant], sweep: Sequence[Point]
) -> NextStep:
    """Of a comparison, a prediction, a step and a trace, in this order, whichever the page shows."""
    if variants:
        return NextStep(
            why=phrase("Take the config that fits best, and see whether every rank of it fits:"),
            command=f"swapconf dryrun {_yaml_of([one.title for one in variants])} --ranks all --budget 54GB",
        )
    predicted = [view.title for view in views if view.ticks > 1]
    if predicted:
        best = best_overall(sweep)
        why = (
            phrase(
                "This is predicted. Write backward_prefetch {prefetch} into the YAML and confirm it by a dry run:",
                prefetch=best.prefetch,
            )
            if best is not None
            else phrase("This is predicted. Confirm it by a dry run:")
        )
        return NextStep(why=why, command=f"swapconf dryrun {_yaml_of(predicted)} --keep traces")
    if timelines:
        return NextStep(
            why=phrase("See which prefetch costs the least time on this card:"),
            command=f"swapconf whatif {_trace_of(timelines[0].title)} --config {_YAML} {_SWEEP} "
            "--hardware ascend_910b2",
        )
    return NextStep(
        why=phrase("See what swap and recompute would save of it, from a trace without both:"),
        command=f"swapconf whatif {_trace_of(views[0].title) if views else 'TRACE'} --config {_YAML} {_SWEEP}",
    )


def after_cluster(views: Sequence[ClusterView]) -> NextStep:
    """Of a page of whole clusters: the rank that failed, else the tightest of all."""
    for view in views:
        failed = next((row for row in view.rows if row.used_peak_bytes is None and not row.is_good), None)
        if failed is not None:
            return NextStep(
                why=phrase("A rank did not get to its peak. Run it alone and keep its whole log:"),
                command=f"swapconf dryrun {shlex.quote(view.title)} --ranks {failed.rank} --keep traces",
            )
    rows = [(view, row) for view in views if (row := view.tightest) is not None]
    if not rows:
        return NextStep(
            why=phrase("Add memory to what is known of it:"),
            command=f"swapconf dryrun {_yaml_of([view.title for view in views])} --level 1 --html cluster.html",
        )
    view, row = min(
        rows,
        key=lambda item: (
            item[1].headroom_bytes is None,
            item[1].headroom_bytes or 0,
            -(item[1].with_fragments_peak_bytes or 0),
        ),
    )
    if view.kept_in:
        return NextStep(
            why=phrase("See what fills the tightest rank, layer by layer:"),
            command=f"swapconf memory {shlex.quote(f'{view.kept_in}/rank_{row.rank}')} --html memory.html",
        )
    return NextStep(
        why=phrase("Keep the trace of the tightest rank; `memory` and `whatif` tell more of it:"),
        command=f"swapconf dryrun {shlex.quote(view.title)} --ranks {row.rank} --keep traces",
    )


def _yaml_of(titles: Sequence[str]) -> str:
    """The last of them that is a YAML."""
    return shlex.quote(next((title for title in reversed(titles) if title.endswith((".yaml", ".yml"))), _YAML))


def _trace_of(title: str) -> str:
    return shlex.quote(title)
