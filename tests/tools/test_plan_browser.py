"""The page of a plan in a headless Chromium: it draws, and clicking a point shows its YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from swapconf.report.plan_figure import shown
from swapconf.report.plan_page import page, yaml_of
from tests.tools.pages import click, wait_until_nothing_is_wider
from tests.tools.test_memory_browser import SECONDS, browser  # noqa: F401  a fixture
from tests.unit.planning import study
from tests.unit.test_plan_frontier import frontier, planned

_CENTRE = """
const chart = document.getElementById("frontier"), {x, y} = chart.getBoundingClientRect();
const {xaxis, yaxis} = chart._fullLayout, point = chart.data[0];
return [x + xaxis._offset + xaxis.c2p(point.x[arguments[0]]), y + yaxis._offset + yaxis.c2p(point.y[arguments[0]])];
"""


@pytest.fixture
def opened(browser: webdriver.Chrome, tmp_path: Path) -> webdriver.Chrome:  # noqa: F811
    file = tmp_path / "plan.html"
    file.write_text(page(planned(), frontier(), study(), 0.3, "1.2"), encoding="utf-8")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(file.as_uri())
    WebDriverWait(browser, SECONDS).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.drawn") == "1"
    )
    return browser


def text(opened: webdriver.Chrome, name: str) -> str:
    return opened.find_element(By.ID, name).get_attribute("textContent") or ""


def test_at_first_the_plan_is_shown_and_a_click_on_a_point_shows_its_yaml(opened: webdriver.Chrome) -> None:
    judge, points = planned().judge, shown(frontier())
    assert text(opened, "section-text").strip() == yaml_of(judge, planned().chosen.plan).strip()
    number = len(frontier().points) - 1
    x, y = opened.execute_script(_CENTRE, number)
    click(opened, x, y)
    assert text(opened, "section-text") == yaml_of(judge, points[number].plan)
    assert opened.get_log("browser") == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_window(opened: webdriver.Chrome, width: int) -> None:
    wait_until_nothing_is_wider(opened, width, SECONDS)
