"""PLANNED + FRONTIER -> HTML: what a plan costs and saves beside what people use today, and what other budgets would
give, in one page that needs no network. Clicking a point shows what a YAML says for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

import swapconf
from swapconf.config.config import Dialect
from swapconf.config.yaml_text import dump, recompute_sections, swap_section
from swapconf.decide.compact import CannotCompact, compact
from swapconf.files.writing import write_named
from swapconf.plan.frontier import Frontier, FrontierPoint, point_of
from swapconf.plan.judge import Judge
from swapconf.plan.modes import KEEP, Plan, uniform
from swapconf.plan.planned import Planned
from swapconf.report import html
from swapconf.report.memory_tables import PrintedTable
from swapconf.report.next_steps import NextStep
from swapconf.report.plan_figure import CHOSEN, PLANS, SIMPLE, frontier_figure, shown
from swapconf.words.phrases import in_use, phrase, show
from swapconf.words.units import show_bytes

_KEYS = ("recompute", "select_recompute")  # of recompute_config, what a plan decides


def write(planned: Planned, frontier: Frontier | None, path: Path, title: str, origin: str) -> None:
    """``title``: the YAML that is planned; ``origin``: of the traces."""
    write_named(path, page(planned, frontier, swapconf.__version__, title, origin))


def page(planned: Planned, frontier: Frontier | None, version: str, title: str, origin: str) -> str:
    """The text of the page. ``version``: of swapconf, for the foot. Without a frontier there is no picture."""
    points = shown(frontier) if frontier is not None else [point_of(planned.judge, planned.chosen.plan)]
    names = ["plotly.js", "memory.js", "plan.js"] if frontier is not None else []
    scripts = [_script(name) for name in names]
    told = _sections(planned.judge, points)
    chosen = points.index(frontier.chosen, len(frontier.points)) if frontier is not None else 0
    return html.template("plan.html.j2").render(
        language=in_use(),
        title=title,
        origin=origin,
        version=version,
        policy=html.policy(scripts),
        scripts=scripts,
        lines=list(_verdict(planned)),
        figures=[frontier_figure(frontier, "frontier")] if frontier is not None else [],
        legend=[(phrase("plans"), PLANS), (phrase("the plan"), CHOSEN), (phrase("what people use today"), SIMPLE)],
        sections=told,
        chosen=told[chosen],
        strategies=_strategies(planned),
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
    config = judge.config(plan)
    try:
        made = compact(judge.evaluator.strategy(config), config, judge.evaluator.versions)
    except CannotCompact as error:
        return f"# {error}\n"
    swap, recompute = swap_section(made), recompute_sections(made)
    if config.dialect is Dialect.MCORE:
        swap = {"model": {"model_config": swap["swap_config"]}}
    said = {key: value for key, value in recompute["recompute_config"].items() if key in _KEYS}
    return dump({**swap, "recompute_config": said})


def _verdict(planned: Planned) -> Iterator[str]:
    judge = planned.judge
    yield phrase(planned.verdict.value)
    yield phrase(
        "The budget of a card is {budget}; the plan needs {needed}. A step takes {step:.3f} ms with the host link as "
        "told, {slower:.3f} ms with a slower one.",
        budget=show_bytes(judge.limits.budget_bytes),
        needed=show_bytes(planned.needed_bytes),
        step=judge.nominal_us(planned.chosen.plan) / 1000,
        slower=planned.chosen.found.step_us / 1000,
    )


def _strategies(planned: Planned) -> PrintedTable:
    """The plan and what people use today; the simple strategies have no swap and full recompute among them."""
    judge = planned.judge
    nothing = judge.evaluation(uniform(KEEP, judge.network)).step_us
    points = [point_of(judge, planned.chosen.plan, phrase("the plan"))]
    points += [point_of(judge, scored.plan, name) for name, scored in planned.simple.items()]
    return PrintedTable(
        (
            phrase("strategy"),
            phrase("fits"),
            phrase("used peak"),
            phrase("with fragments"),
            phrase("needs"),
            phrase("host"),
            phrase("moved"),
            phrase("step ms"),
            phrase("change"),
        ),
        [
            (
                point.name,
                phrase("yes") if judge.score(point.plan).fits else phrase("no"),
                show_bytes(point.used_bytes),
                show_bytes(max(judge.pool_bytes(point.plan))),
                show_bytes(point.needed_bytes),
                show_bytes(point.host_bytes),
                show_bytes(point.moved_bytes),
                f"{point.step_us / 1000:.3f}",
                f"{point.step_us / nothing - 1:+.2%}",
            )
            for point in points
        ],
        frozenset({phrase("strategy"), phrase("fits")}),
    )


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
