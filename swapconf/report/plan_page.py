"""PLANNED + FRONTIER -> HTML: what a plan costs and saves beside what people use today, and what other budgets would
give, in one page that needs no network. Clicking a point shows what a YAML says for it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from plotly.offline import get_plotlyjs

from swapconf.config.config import Dialect
from swapconf.config.yaml_text import dump, recompute_sections, swap_section
from swapconf.decide.compact import CannotCompact
from swapconf.plan.frontier import Frontier, FrontierPoint, point_of
from swapconf.plan.judge import Judge
from swapconf.plan.modes import Plan
from swapconf.plan.planned import Planned
from swapconf.report import html
from swapconf.report.next_steps import NextStep
from swapconf.report.plan_figure import CHOSEN, PLANS, SIMPLE, frontier_figure, shown
from swapconf.report.plan_text import link_line, strategies, verdict_lines
from swapconf.study.study import Study
from swapconf.words.phrases import in_use, phrase, show
from swapconf.words.units import show_bytes

_KEYS = ("recompute", "select_recompute")  # of recompute_config, what a plan decides


def page(planned: Planned, frontier: Frontier | None, study: Study, slower_link: float, version: str) -> str:
    """The text of the page. ``version``: of swapconf, for the foot. Without a frontier there is no picture."""
    title = study.document.file
    points = shown(frontier) if frontier is not None else [point_of(planned.judge, planned.chosen.plan)]
    names = ["plotly.js", "memory.js", "plan.js"] if frontier is not None else []
    scripts = [_script(name) for name in names]
    told = _sections(planned.judge, points)
    chosen = points.index(frontier.chosen, len(frontier.points)) if frontier is not None else 0
    return html.template("plan.html.j2").render(
        language=in_use(),
        title=title,
        origin=planned.judge.evaluator.origin,
        version=version,
        policy=html.policy(scripts),
        scripts=scripts,
        lines=[*verdict_lines(planned, study), link_line(planned, slower_link)],
        figures=[frontier_figure(frontier, "frontier")] if frontier is not None else [],
        legend=[(phrase("plans"), PLANS), (phrase("the plan"), CHOSEN), (phrase("what people use today"), SIMPLE)],
        sections=told,
        chosen=told[chosen],
        strategies=strategies(planned, study),
        next_step=_next_step(planned, title),
    )


def _script(name: str) -> str:
    if name == "plotly.js":
        return str(get_plotlyjs())
    return files("swapconf.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _sections(judge: Judge, points: Sequence[FrontierPoint]) -> list[dict[str, Any]]:
    """Of each point its name and figures in a line, and the sections of a YAML that say it."""
    known: dict[Plan, str] = {}
    for point in points:
        if point.plan not in known:
            known[point.plan] = yaml_of(judge, point.plan)
    return [
        {
            "name": show(point.name or phrase("a plan")),
            "told": show(
                phrase(
                    "needs {size}, a step of {step:.3f} ms",
                    size=show_bytes(point.needed_bytes),
                    step=point.step_us / 1000,
                )
            ),
            "text": known[point.plan],
        }
        for point in points
    ]


def yaml_of(judge: Judge, plan: Plan) -> str:
    """What a YAML has to say for a plan, in as few entries as there can be; what else its sections say stays."""
    try:
        made = judge.written(plan)
    except CannotCompact as error:
        return f"# {error}\n"
    swap, recompute = swap_section(made), recompute_sections(made)
    if made.dialect is Dialect.MCORE:
        swap = {"model": {"model_config": swap["swap_config"]}}
    said = {key: value for key, value in recompute["recompute_config"].items() if key in _KEYS}
    return dump({**swap, "recompute_config": said})


def _next_step(planned: Planned, title: str) -> NextStep:
    budget = f"{planned.judge.limits.budget_bytes}B"
    if not planned.chosen.fits:
        return NextStep(
            why=phrase("No plan fits this budget. See what holds the memory that swap and recompute cannot lower:"),
            command=f"swapconf dryrun {shlex.quote(title)} --ranks stages --html cluster.html",
        )
    return NextStep(
        why=phrase("This is predicted. Confirm it by a dry run, and write it into the YAML:"),
        command=f"swapconf plan {shlex.quote(title)} --budget {budget} --confirm --write",
    )
