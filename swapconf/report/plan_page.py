"""PLANNED + FRONTIER -> HTML: what a plan costs and saves beside what people use today, and what other budgets would
give, in one page that needs no network. Clicking a point shows what a YAML says for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any, Generic

from plotly.offline import get_plotlyjs

from swapconf.config.config import Dialect
from swapconf.config.yaml_text import dump, recompute_sections, swap_section
from swapconf.decide.compact import CannotCompact
from swapconf.plan import budgets
from swapconf.plan.frontier import AnyPlan, Frontier, FrontierPoint
from swapconf.plan.judge import Judge
from swapconf.plan.modes import Plan
from swapconf.plan.planned import Planned
from swapconf.plan.pynative import budgets as native_budgets
from swapconf.plan.pynative.judge import NativeJudge
from swapconf.plan.pynative.modes import NativePlan
from swapconf.plan.pynative.planned import NativePlanned
from swapconf.report import html, native_plan_text, plan_text
from swapconf.report.next_steps import Asked, after_planning
from swapconf.report.plan_chart import memory_told
from swapconf.report.plan_figure import CHOSEN, PLANS, SIMPLE, frontier_figure, shown
from swapconf.study.study import Study
from swapconf.words.columns import PrintedTable
from swapconf.words.phrases import in_use, phrase, show
from swapconf.words.units import show_bytes

_KEYS = ("recompute", "select_recompute")  # of recompute_config, what a plan decides


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told(Generic[AnyPlan]):
    """What a page says of a plan in either mode. ``lines``: what it comes to. ``yaml_of``: what a YAML has to say for
    a plan. ``point``: of the plan, where there is no frontier."""

    origin: str
    lines: Sequence[str]
    strategies: PrintedTable
    yaml_of: Callable[[AnyPlan], str]
    point: FrontierPoint[AnyPlan]
    fits: bool


def page(
    planned: Planned, frontier: Frontier[Plan] | None, study: Study, slower_link: float, version: str, asked: Asked
) -> str:
    """The text of the page. ``version``: of swapconf, for the foot; ``asked``: what the page answers. Without a
    frontier there is no picture."""
    judge = planned.judge
    told = _Told(
        origin=judge.evaluator.origin,
        lines=[*plan_text.verdict_lines(planned, study), plan_text.link_line(planned, slower_link)],
        strategies=plan_text.strategies(planned, study),
        yaml_of=partial(yaml_of, judge),
        point=budgets.point_of(judge, planned.chosen.plan),
        fits=planned.chosen.fits,
    )
    return _page(told, frontier, study.document.file, version, asked)


def native_page(
    planned: NativePlanned,
    frontier: Frontier[NativePlan] | None,
    file: str,
    slower_link: float,
    version: str,
    asked: Asked,
) -> str:
    """The same in PyNative mode. ``file``: the YAML."""
    judge = planned.judge
    told = _Told(
        origin=native_plan_text.origin(planned),
        lines=[*native_plan_text.verdict_lines(planned), native_plan_text.link_line(planned, slower_link)],
        strategies=native_plan_text.strategies(planned),
        yaml_of=partial(native_yaml_of, judge),
        point=native_budgets.point_of(judge, planned.chosen),
        fits=judge.fits(planned.chosen),
    )
    return _page(told, frontier, file, version, asked)


def _page(told: _Told[AnyPlan], frontier: Frontier[AnyPlan] | None, title: str, version: str, asked: Asked) -> str:
    points = shown(frontier) if frontier is not None else [told.point]
    names = ["plotly.js", "memory.js", "plan.js"] if frontier is not None else []
    scripts = [_script(name) for name in names]
    sections = _sections(told, points)
    chosen = points.index(frontier.chosen, len(frontier.points)) if frontier is not None else 0
    return html.template("plan.html.j2").render(
        language=in_use(),
        title=title,
        origin=told.origin,
        version=version,
        policy=html.policy(scripts),
        scripts=scripts,
        lines=told.lines,
        figures=[frontier_figure(frontier, "frontier")] if frontier is not None else [],
        memory_told=memory_told(frontier) if frontier is not None else "",
        legend=[(phrase("plans"), PLANS), (phrase("the plan"), CHOSEN), (phrase("what people use today"), SIMPLE)],
        sections=sections,
        chosen=sections[chosen],
        strategies=told.strategies,
        next_step=after_planning(asked, "" if told.fits else _why_not()),
    )


def _script(name: str) -> str:
    if name == "plotly.js":
        return str(get_plotlyjs())
    return files("swapconf.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _sections(told: _Told[AnyPlan], points: Sequence[FrontierPoint[AnyPlan]]) -> list[dict[str, Any]]:
    """Of each point its name and figures in a line, and the sections of a YAML that say it."""
    known = {plan: told.yaml_of(plan) for plan in dict.fromkeys(point.plan for point in points)}
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


def native_yaml_of(judge: NativeJudge, plan: NativePlan) -> str:
    """What a PyNative YAML has to say for a plan."""
    made = judge.config(plan)
    return dump({**swap_section(made), **recompute_sections(made)})


def _why_not() -> str:
    return phrase("No plan fits this budget. See what holds the memory that swap and recompute cannot lower:")
