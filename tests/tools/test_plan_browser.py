"""The page of a plan in a headless Chromium: it draws, and clicking a point shows its YAML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from swapconf.report.next_steps import Asked
from swapconf.report.plan_figure import shown
from swapconf.report.plan_page import native_page, native_yaml_of, page, yaml_of
from tests.tools.pages import click, wait_until_nothing_is_wider
from tests.tools.test_memory_browser import SECONDS, browser  # noqa: F401  a fixture
from tests.unit import test_pynative_frontier as native
from tests.unit.planning import study
from tests.unit.test_plan_frontier import frontier, planned
from tests.unit.test_pynative_frontier import NAMES
from tests.unit.test_pynative_plan import NONE_BYTES

_CENTRE = """
const chart = document.getElementById("frontier");
chart.scrollIntoView({behavior: "instant"});
const {x, y} = chart.getBoundingClientRect();
const {xaxis, yaxis} = chart._fullLayout, point = chart.data[0];
return [x + xaxis._offset + xaxis.c2p(point.x[arguments[0]]), y + yaxis._offset + yaxis.c2p(point.y[arguments[0]])];
"""

ASKED = Asked(again="swapconf plan train.yaml --budget 54GB", dry_run="swapconf dryrun train.yaml")


@dataclass(frozen=True)
class Page:
    """``yamls``: by number of the point, what is to be shown for it; ``chosen``: of these, that of the plan."""

    text: str
    yamls: tuple[str, ...]
    chosen: int


def of_graph_mode() -> Page:
    judge, found = planned().judge, frontier()
    yamls = tuple(yaml_of(judge, point.plan) for point in shown(found))
    return Page(page(planned(), found, study(), 0.3, "1.2", ASKED), yamls, len(found.points))


def of_pynative_mode() -> Page:
    name, budget = NAMES[0], NONE_BYTES * 8 // 10
    made, found = native.planned(name, budget), native.frontier(name, budget)
    yamls = tuple(native_yaml_of(made.judge, point.plan) for point in shown(found))
    return Page(native_page(made, found, "train.yaml", 0.3, "1.2", ASKED), yamls, len(found.points))


@pytest.fixture(params=[of_graph_mode, of_pynative_mode])
def made(request: pytest.FixtureRequest) -> Page:
    found: Page = request.param()
    return found


@pytest.fixture
def opened(browser: webdriver.Chrome, made: Page, tmp_path: Path) -> webdriver.Chrome:  # noqa: F811
    file = tmp_path / "plan.html"
    file.write_text(made.text, encoding="utf-8")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(file.as_uri())
    WebDriverWait(browser, SECONDS).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.drawn") == "1"
    )
    return browser


def text(opened: webdriver.Chrome, name: str) -> str:
    return opened.find_element(By.ID, name).get_attribute("textContent") or ""


def test_at_first_the_plan_is_shown_and_a_click_on_a_point_shows_its_yaml(opened: webdriver.Chrome, made: Page) -> None:
    assert text(opened, "section-text").strip() == made.yamls[made.chosen].strip()
    number = made.chosen - 1  # the last point of the frontier
    x, y = opened.execute_script(_CENTRE, number)
    click(opened, x, y)
    assert text(opened, "section-text") == made.yamls[number] != made.yamls[made.chosen]
    assert opened.get_log("browser") == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_window(opened: webdriver.Chrome, width: int) -> None:
    wait_until_nothing_is_wider(opened, width, SECONDS)
