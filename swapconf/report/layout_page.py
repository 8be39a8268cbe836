"""RANKING -> HTML: the layouts that were planned, memory against time, in one page that needs no network. Clicking a
point shows what a YAML says for it."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from plotly.offline import get_plotlyjs

from swapconf.config.yaml_text import dump
from swapconf.layout.ranked import Ranking, Row
from swapconf.layout.written import keys
from swapconf.report import html
from swapconf.report.layout_figure import layout_figure
from swapconf.report.layout_text import lost_lines, rows_of, side_by_side, strategy, verdict_lines
from swapconf.report.next_steps import Asked, after_planning
from swapconf.report.plan_figure import CHOSEN, PLANS, SIMPLE
from swapconf.report.plan_page import yaml_of
from swapconf.study.study import Study
from swapconf.words.phrases import in_use, phrase, show
from swapconf.words.units import show_bytes, show_range

_SCRIPTS = ("memory.js", "plan.js")


def page(ranking: Ranking, study: Study, slower_link: float, asked: Asked, version: str) -> str:
    """The text of the page. ``asked``: what the page answers; ``version``: of swapconf, for the foot."""
    title = study.document.file
    rows = rows_of(ranking)
    scripts = [str(get_plotlyjs()), *(_script(name) for name in _SCRIPTS)] if rows else []
    sections = [_section(row, study) for row in rows]
    return html.template("layout.html.j2").render(
        language=in_use(),
        title=title,
        version=version,
        policy=html.policy(scripts),
        scripts=scripts,
        lines=list(verdict_lines(ranking, slower_link)),
        lost=list(lost_lines(ranking)),
        figures=[layout_figure(rows, ranking.best, ranking.usable_bytes, "frontier")] if rows else [],
        legend=[(phrase("layouts"), PLANS), (phrase("the best"), CHOSEN), (phrase("the YAML as it is"), SIMPLE)],
        sections=sections,
        chosen=sections[0] if sections else {},
        table=side_by_side(ranking),
        next_step=after_planning(asked, "" if ranking.best is not None else _why_not()),
    )


def yaml_of_row(row: Row, study: Study) -> str:
    """What a YAML has to say otherwise for a layout and its strategy."""
    if row.planned is None:
        return show(phrase("# as the file says")) + "\n"
    nested: dict[str, Any] = {}
    for path, value in keys(study, row.layout).items():
        *sections, key = path.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[key] = value
    return (dump(nested) if nested else "") + yaml_of(row.planned.judge, row.plan)


def _section(row: Row, study: Study) -> dict[str, str]:
    low, high = row.parts.range_us
    return {
        "name": row.layout.name,
        "told": show(
            phrase(
                "{strategy}; needs {size}, a step of {step}",
                strategy=strategy(row),
                size=show_bytes(row.needed_bytes),
                step=show_range(row.parts.step_us, low, high),
            )
        ),
        "text": yaml_of_row(row, study),
    }


def _script(name: str) -> str:
    return files("swapconf.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _why_not() -> str:
    return phrase("No layout fits this budget. See what holds the memory that swap and recompute cannot lower:")
