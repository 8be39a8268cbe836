"""The page in a headless Chromium: it draws, hovering tells, zooming zooms, and names stay text.

Skipped where there is no Chromium; SWAPCONF_REQUIRE_BROWSER, which CI sets, makes that a failure.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from swapconf.memory.view import of_trace
from tests.helpers import golden
from tests.unit.test_memory_page import LINK, MIXED, NAME, SCRIPT, hostile_view

pytest.importorskip("selenium")

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from swapconf.report.findings_text import printable
from swapconf.report.memory_page import page

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1000",
)
SECONDS = 60


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    try:
        driver = start(str(tmp_path_factory.mktemp("profile")))
    except (WebDriverException, FileNotFoundError) as error:
        if "SWAPCONF_REQUIRE_BROWSER" in os.environ:
            raise
        pytest.skip(f"no Chromium can be driven here: {str(error).splitlines()[0]}")
    try:
        yield driver
    finally:
        driver.quit()


def start(profile: str) -> webdriver.Chrome:
    """A new browser. Without both paths selenium would download some."""
    if not (CHROMIUM and DRIVER):
        raise FileNotFoundError("chromium or chromedriver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two traces, the second of them hostile."""
    path = tmp_path_factory.mktemp("page") / "memory.html"
    path.write_text(page([of_trace(golden(NAME), "a trace", "measured"), hostile_view()], "1.2"), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: webdriver.Chrome, file: Path) -> webdriver.Chrome:
    browser.get_log("browser")
    browser.get_log("performance")
    load(browser, file)
    return browser


def load(browser: webdriver.Chrome, file: Path) -> None:
    """Until all four charts are drawn."""
    browser.get(file.as_uri())
    WebDriverWait(browser, SECONDS).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.drawn") == "4"
    )


def plot(browser: webdriver.Chrome, place: str) -> WebElement:
    """The area of a chart that takes the pointer, in the middle of the window."""
    area = browser.find_element(By.CSS_SELECTOR, f"#{place} .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
    return area


def time_range(browser: webdriver.Chrome, place: str) -> list[float]:
    found: list[float] = browser.execute_script(f"return document.getElementById('{place}').layout.xaxis.range")
    return found


def hover(browser: webdriver.Chrome, place: str, x: float, y: float) -> str:
    """What the label says at a point of the chart, given in the units of its axes."""
    area = plot(browser, place)
    across, down = browser.execute_script(
        f"const {{xaxis, yaxis}} = document.getElementById('{place}')._fullLayout;"
        "return [xaxis.d2p(arguments[0]) - xaxis._length / 2, yaxis.d2p(arguments[1]) - yaxis._length / 2]",
        x,
        y,
    )
    ActionChains(browser).move_to_element_with_offset(area, round(across), round(down)).perform()
    return str(
        WebDriverWait(browser, SECONDS).until(
            lambda driver: driver.execute_script(f"return document.querySelector('#{place} .hoverlayer').textContent")
        )
    )


def largest(browser: webdriver.Chrome, place: str, containing: str = "") -> dict[str, Any]:
    """The middle and the label of the block that covers the most, of those whose name holds a text."""
    found: dict[str, Any] = browser.execute_script(
        """
        let best = {area: 0};
        for (const trace of document.getElementById(arguments[0]).data) trace.x.forEach((x, i) => {
          const area = trace.width[i] * trace.y[i];
          if (area > best.area && trace.hovertext[i].includes(arguments[1]))
            best = {area, x: x + trace.width[i] / 2, y: trace.base[i] + trace.y[i] / 2, name: trace.hovertext[i]};
        });
        return best""",
        place,
        containing,
    )
    return found


def test_everything_is_drawn_and_nothing_complains(opened: webdriver.Chrome) -> None:
    assert opened.get_log("browser") == []
    for number in (0, 1):
        assert len(opened.find_elements(By.CSS_SELECTOR, f"#timeline-{number} .scatterlayer .trace")) > 5
        assert len(opened.find_elements(By.CSS_SELECTOR, f"#blocks-{number} .barlayer .point path")) > 500
        assert "peak" in opened.find_element(By.CSS_SELECTOR, f"#timeline-{number} .annotation").text
    assert opened.find_element(By.CSS_SELECTOR, "#timeline-0 .main-svg").size["width"] > 300


def test_only_the_file_itself_is_asked_for(opened: webdriver.Chrome, file: Path) -> None:
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert file.as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_policy_stops_other_scripts_and_connections(opened: webdriver.Chrome) -> None:
    stopped = opened.execute_async_script("""
        const done = arguments[0], stopped = [];
        document.addEventListener("securitypolicyviolation", (event) => {
          stopped.push(event.effectiveDirective);
          if (stopped.length === 2) done([...stopped, String(window.injected)]);
        });
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        script.remove();
        fetch("http://127.0.0.1:9/").catch(() => {});""")
    assert sorted(stopped) == ["connect-src", "script-src-elem", "undefined"]


def test_the_buttons_send_nothing(opened: webdriver.Chrome) -> None:
    buttons = opened.find_elements(By.CLASS_NAME, "modebar-btn")
    titles = {str(button.get_attribute("data-title")).lower() for button in buttons}
    assert titles == {"download plot as a png", "zoom", "pan", "zoom in", "zoom out", "reset axes"}


def test_the_page_is_not_wider_than_a_narrow_screen(opened: webdriver.Chrome) -> None:
    sizes = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    try:
        WebDriverWait(opened, SECONDS).until(
            lambda driver: driver.execute_script(
                "return innerWidth === 420 && document.documentElement.scrollWidth <= innerWidth"
            )
        )
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_hovering_over_the_timeline_tells_every_category(opened: webdriver.Chrome) -> None:
    view = of_trace(golden(NAME), "a trace", "measured")
    label = hover(opened, "timeline-0", view.peak_time, 1)
    for category in view.timeline.by_category:
        assert category.value in label
    assert "in use" in label


def test_hovering_over_a_block_tells_what_it_is(opened: webdriver.Chrome) -> None:
    block = largest(opened, "blocks-0")
    label = hover(opened, "blocks-0", block["x"], block["y"])
    assert block["name"].replace("<br>", "") in label
    assert "alive from event" in label


def test_dragging_zooms_both_charts_and_a_double_click_goes_back(opened: webdriver.Chrome) -> None:
    whole = time_range(opened, "timeline-0")
    area = plot(opened, "timeline-0")
    ActionChains(opened).move_to_element_with_offset(area, -100, 0).click_and_hold().move_by_offset(
        60, 1
    ).move_by_offset(90, 0).release().perform()
    WebDriverWait(opened, SECONDS).until(lambda driver: time_range(driver, "blocks-0") != whole)
    zoomed = time_range(opened, "timeline-0")
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    assert time_range(opened, "blocks-0") == pytest.approx(zoomed)
    assert time_range(opened, "timeline-1") == whole

    def has_gone_back(driver: webdriver.Chrome) -> bool:
        """Two clicks of a busy machine may be no double click, so it is tried again."""
        if time_range(driver, "blocks-0") != pytest.approx(whole):
            ActionChains(driver).double_click(plot(driver, "timeline-0")).perform()
        return time_range(driver, "blocks-0") == pytest.approx(whole)

    WebDriverWait(opened, SECONDS).until(has_gone_back)
    assert time_range(opened, "timeline-0") == pytest.approx(whole)


@pytest.mark.parametrize("name", [SCRIPT, LINK, MIXED])
def test_a_hostile_name_stays_text(opened: webdriver.Chrome, name: str) -> None:
    block = largest(opened, "blocks-1", containing=escape(name[-18:], quote=False))
    label = hover(opened, "blocks-1", block["x"], block["y"])
    assert printable(name) in label
    assert opened.find_elements(By.CSS_SELECTOR, "#blocks-1 .hoverlayer a, #injected, img, main a[href]") == []


def test_a_hostile_title_stays_text(opened: webdriver.Chrome) -> None:
    assert SCRIPT in [heading.text for heading in opened.find_elements(By.TAG_NAME, "h2")]
    assert len(opened.find_elements(By.TAG_NAME, "script")) == 3
    assert opened.title.startswith("Memory: a trace, <script>")


@pytest.mark.parametrize("width", [1400, 640, 400])
def test_names_in_tables_can_be_read_at_any_width(browser: webdriver.Chrome, file: Path, width: int) -> None:
    """No column of words is a letter wide, figures stay on one line, and what is too wide scrolls in its own box."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        load(browser, file)
        narrowest, most_lines, page_width = browser.execute_script("""
            const cells = (chosen) => [...document.querySelectorAll(chosen)].filter((cell) => cell.textContent.trim());
            const lines = (cell) => {
                const range = document.createRange();
                range.selectNode(cell.firstChild);
                return range.getClientRects().length;
            };
            return [Math.min(...cells('.words').map((cell) => cell.clientWidth)),
                    Math.max(...cells('td:not(.words)').map(lines)), document.documentElement.scrollWidth]""")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert narrowest >= 80
    assert most_lines == 1
    assert page_width <= width
