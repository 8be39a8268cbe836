"""MEMORY VIEWS -> HTML: one page that needs no network. It carries plotly.js, which draws, and the figures as data.

Names come from traces that anybody may have made, so nothing of them is ever markup: the template escapes, data sits
in a block that no script runs, and texts for plotly.js, which reads some HTML itself, are escaped once more. The
page's policy runs the two scripts that are named by their hash, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from plotly.offline import get_plotlyjs

from swapconf.compare.variant import Variant
from swapconf.memory.memory_view import MemoryView
from swapconf.report import html
from swapconf.report.memory_figures import COLOURS, blocks_figure, timeline_figure
from swapconf.report.memory_tables import categories_table, entries_table, layers_table, operators_table
from swapconf.report.next_steps import next_step
from swapconf.report.side_by_side import notes_of, overall_table, peaks_table, rank_table, ranks_of
from swapconf.report.sweep_chart import choices
from swapconf.report.sweep_figure import sweep_figure
from swapconf.report.timeline_figures import BUBBLE_COLOUR, kinds_of, stages_of, step_figure
from swapconf.timing.timeline_view import TimelineView
from swapconf.trace.lifetimes import CATEGORIES, Category
from swapconf.whatif.sweep import Point
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import in_use, joined, phrase
from swapconf.words.units import axis_unit, show_bytes

NUM_OPERATORS = 200


def page(
    views: Sequence[MemoryView],
    version: str,
    timelines: Sequence[TimelineView] = (),
    variants: Sequence[Variant] = (),
    sweep: Sequence[Point] = (),
) -> str:
    """The text of the page. Traces share the scales of their axes, so that they can be compared by eye.
    ``version``: of swapconf, for the foot. ``timelines``: steps to draw above the memory. ``variants``: what is
    compared in tables; without them, the peaks of ``views`` are. ``sweep``: drawn above the traces."""
    scripts = [
        get_plotlyjs(),
        *(
            files("swapconf.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")
            for name in (["memory.js", "timeline.js"] if timelines else ["memory.js"])
        ),
    ]
    top = max((view.with_fragments_peak_bytes for view in views), default=0)
    top = max(top, *(view.peak_bytes for view in timelines), 0)
    longest = max((view.step_us for view in timelines), default=0.0)
    unit = axis_unit(top)
    figures = [
        figure
        for number, view in enumerate(views)
        for figure in (
            timeline_figure(view, f"timeline-{number}", unit, top),
            blocks_figure(view, f"blocks-{number}", unit, top),
        )
    ]
    figures += [sweep_figure(sweep, "sweep")] if sweep else []
    steps = [step_figure(view, f"step-{number}", unit, top, longest) for number, view in enumerate(timelines)]
    tables = [_tables(view) for view in views]
    return html.template("memory.html.j2").render(
        language=in_use(),
        titles=joined(", ", (view.title for view in timelines or views)),
        version=version,
        views=views,
        show=show_bytes,
        share=_share,
        legend=_legend(views),
        figures=figures,
        tables=tables,
        comparison=[] if variants else _comparison(views),
        scripts=scripts,
        policy=html.policy(scripts),
        choices=choices(sweep) if sweep else [],
        sweep=sweep,
        next_step=next_step(views, timelines, variants, sweep),
        timelines=timelines,
        steps=steps,
        milliseconds=_milliseconds,
        bubble=BUBBLE_COLOUR,
        kinds_of=kinds_of,
        stages_of=stages_of,
        summary=_summary(variants),
        summary_notes=[line for variant in variants for line in notes_of(variant)],
    )


def _summary(variants: Sequence[Variant]) -> list[tuple[str, PrintedTable]]:
    good = [variant for variant in variants if not variant.failure]
    ranks = ranks_of(good)
    by_rank = [(name, rank_table(good, rank)) for rank, name in ranks if len(ranks) > 1]
    peaks = peaks_table(good)
    held = [(phrase("What holds the highest peak"), peaks)] if peaks.rows else []
    return [(phrase("overall"), overall_table(good)), *held, *by_rank] if good else []


def _milliseconds(time_us: float) -> str:
    return f"{time_us / 1000:.3f} ms"


def _tables(view: MemoryView) -> list[tuple[str, PrintedTable]]:
    entries = [(phrase("By entry of the YAML"), entries_table(view.entries))] if view.entries else []
    return [
        *entries,
        (phrase("Alive at the peak, by category"), categories_table(view)),
        (phrase("By layer"), layers_table(view)),
        (phrase("By operator"), operators_table(view, NUM_OPERATORS)),
    ]


def _legend(views: Iterable[MemoryView]) -> list[tuple[str, str]]:
    """(name, colour) of the categories that occur."""
    found = {category for view in views for category in view.timeline.by_category}
    return [(phrase(category.value), COLOURS[category]) for category in CATEGORIES if category in found]


def _comparison(views: Sequence[MemoryView]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Rows of the table of all traces: the figure of each, and how far it is from the first."""
    found = {category for view in views for category in view.category_bytes}
    rows: list[tuple[str, list[int]]] = [
        (phrase("used peak"), [view.used_peak_bytes for view in views]),
        (phrase("peak with fragments"), [view.with_fragments_peak_bytes for view in views]),
        (phrase("reserved"), [view.reserved_bytes for view in views]),
    ]
    rows += [
        (phrase("{category} at the peak", category=phrase(category.value)), _of_category(views, category))
        for category in CATEGORIES
        if category in found
    ]
    return [
        (name, [(show_bytes(size), _difference(size, sizes[0]) if index else "") for index, size in enumerate(sizes)])
        for name, sizes in rows
    ]


def _of_category(views: Iterable[MemoryView], category: Category) -> list[int]:
    return [view.category_bytes.get(category, 0) for view in views]


def _difference(size: int, first: int) -> str:
    sign = "+" if size > first else "−"
    return phrase("same") if size == first else f"{sign}{show_bytes(abs(size - first))}"


def _share(part: float) -> str:
    """A percentage that says 100 % only of all."""
    return "100%" if part >= 1 else f"{min(part, 0.9999):.2%}"
