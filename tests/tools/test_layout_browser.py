"""The page of layouts in a headless Chromium: it draws, and a click on a point shows its YAML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("selenium")

from click.testing import CliRunner
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from swapconf.cli import laying_out
from swapconf.cli.main import main
from tests.helpers import TRACES
from tests.tools.pages import click, wait_until_nothing_is_wider
from tests.tools.test_memory_browser import SECONDS, browser  # noqa: F401  a fixture
from tests.unit.layouts import FIXED, Recorded

_CENTRE = """
const chart = document.getElementById("frontier"), {x, y} = chart.getBoundingClientRect();
const {xaxis, yaxis} = chart._fullLayout, trace = chart.data[arguments[0]];
return [x + xaxis._offset + xaxis.c2p(trace.x[0]), y + yaxis._offset + yaxis.c2p(trace.y[0])];
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layouts")
    config = shutil.copy(TRACES / "llama.yaml", folder / "train.yaml")
    words = ["layout", str(config), "--cards", "8", "--budget", "340MB", "--hardware", "ascend_910b2"]
    kept = ["--effort", "0.05", "--keep", str(folder / "kept")]
    page = folder / "layout.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laying_out, "reports", Recorded())
        result = CliRunner().invoke(main, [*words, *kept, *FIXED, "--html", str(page)])
    assert result.exit_code == 0, result.output
    return page


@pytest.fixture
def opened(browser: webdriver.Chrome, written: Path) -> webdriver.Chrome:  # noqa: F811
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(written.as_uri())
    WebDriverWait(browser, SECONDS).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.drawn") == "1"
    )
    return browser


def text(opened: webdriver.Chrome) -> str:
    return opened.find_element(By.ID, "section-text").get_attribute("textContent") or ""


def test_at_first_the_best_is_shown_and_a_click_on_the_yaml_as_it_is_shows_that(opened: webdriver.Chrome) -> None:
    assert "recompute_config:" in text(opened)
    x, y = opened.execute_script(_CENTRE, 1)
    click(opened, x, y)
    assert text(opened) == "# as the file says\n"
    assert opened.get_log("browser") == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_window(opened: webdriver.Chrome, width: int) -> None:
    wait_until_nothing_is_wider(opened, width, SECONDS)
