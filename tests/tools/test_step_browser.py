"""The timelines in a headless Chromium: kernels, hatches and bubbles are drawn, merged and told apart again by zooming.

Skipped like `test_memory_browser`, whose browser this is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapconf.upstream.scopes import in_layer
from tests.unit.stage_traces import write
from tests.unit.test_step_page import SWAP, hostile, variant

pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from swapconf.report.memory_page import page
from tests.tools.test_memory_browser import SECONDS, browser, plot  # noqa: F401  a fixture


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real step with swap, the same with hostile names, and a pipeline on the same clock."""
    folder = tmp_path_factory.mktemp("page")
    real, job = variant(SWAP), variant(write(folder / "job", first_layer_side=1 << 18))
    assert real.timeline is not None
    assert job.timeline is not None
    path = folder / "step.html"
    path.write_text(
        page(real.views, "1", [real.timeline, hostile(real.timeline), job.timeline], [real, job]), encoding="utf-8"
    )
    return path


@pytest.fixture
def opened(browser: webdriver.Chrome, file: Path) -> webdriver.Chrome:  # noqa: F811
    browser.get_log("browser")
    browser.get(file.as_uri())
    WebDriverWait(browser, SECONDS).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.timelines") == "3"
    )
    return browser


def traces(driver: webdriver.Chrome, place: str) -> dict[str, dict[str, Any]]:
    """By name, with the number of bars and their labels."""
    found: list[dict[str, Any]] = driver.execute_script(
        """
        return document.getElementById(arguments[0]).data.filter((trace) => trace.type === "bar")
          .map(({name, base, x, y, hovertext}) => ({name, base, x, y, hovertext}))""",
        place,
    )
    return {trace["name"]: trace for trace in found}


def clock(driver: webdriver.Chrome, place: str) -> list[float]:
    found: list[float] = driver.execute_script(f"return document.getElementById('{place}').layout.xaxis.range")
    return found


def show(driver: webdriver.Chrome, place: str, start_us: float, end_us: float) -> None:
    driver.execute_script(
        "Plotly.relayout(arguments[0], {'xaxis.range': [arguments[1], arguments[2]]})", place, start_us, end_us
    )
    WebDriverWait(driver, SECONDS).until(
        lambda page: all(clock(page, f"step-{index}") == pytest.approx([start_us, end_us]) for index in range(3))
    )


def label(driver: webdriver.Chrome, place: str, x: float, y: float) -> str:
    area = plot(driver, place)
    across, down = driver.execute_script(
        f"const {{xaxis, yaxis, _size}} = document.getElementById('{place}')._fullLayout;"
        "const area = arguments[2].getBoundingClientRect(), chart = document.getElementById(arguments[3])"
        ".getBoundingClientRect();"
        "return [xaxis.d2p(arguments[0]) + _size.l - (area.x - chart.x) - area.width / 2,"
        "        yaxis.d2p(arguments[1]) + yaxis._offset - (area.y - chart.y) - area.height / 2]",
        x,
        y,
        area,
        place,
    )
    ActionChains(driver).move_to_element_with_offset(area, round(across), round(down)).perform()
    return str(
        WebDriverWait(driver, SECONDS).until(
            lambda page: page.execute_script(f"return document.querySelector('#{place} .hoverlayer').textContent")
        )
    )


def test_all_is_drawn_and_nothing_complains(opened: webdriver.Chrome) -> None:
    assert opened.get_log("browser") == []
    swap, job = traces(opened, "step-0"), traces(opened, "step-2")
    for name in ("compute", "communication", "D2H", "H2D", "waits for D2H", "waits for H2D"):
        assert swap[name]["x"]
    assert not swap["bubble"]["x"]
    assert job["bubble"]["x"]
    for place in ("step-0", "step-2"):
        assert len(opened.find_elements(By.CSS_SELECTOR, f"#{place} .barlayer .point path")) > 5
        assert opened.find_elements(By.CSS_SELECTOR, f"#{place} .scatterlayer .trace")


def test_neighbours_below_a_pixel_are_one_until_they_are_zoomed_into(opened: webdriver.Chrome) -> None:
    real = variant(SWAP).timeline
    assert real is not None
    compute = real.ranks[0].lanes[0]
    whole = traces(opened, "step-0")["compute"]
    assert len(whole["x"]) < len(compute.start_us) / 2
    assert any("kernels</b>" in text for text in whole["hovertext"])
    assert sum(whole["x"]) >= (compute.end_us - compute.start_us).sum() * 0.999
    least = np.minimum.reduce([(compute.end_us - compute.start_us)[index : index - 3] for index in range(3)])
    first = int(least.argmax())  # of three neighbours that all take long
    show(opened, "step-0", compute.start_us[first], compute.end_us[first + 2])
    near = traces(opened, "step-0")["compute"]
    assert len(near["x"]) >= 3
    assert not any("kernels</b>" in text for text in near["hovertext"])


def test_memory_is_on_the_same_clock(opened: webdriver.Chrome) -> None:
    highest = opened.execute_script("""
        const {data} = document.getElementById("step-0"), line = data.find((trace) => trace.type === "scatter");
        return Math.max(...line.y)""")
    real = variant(SWAP).timeline
    assert real is not None
    assert highest == pytest.approx(real.peak_bytes / 2**20)
    assert opened.execute_script("return document.getElementById('step-0')._fullLayout.yaxis2.anchor") == "x"


def test_hovering_tells_kernel_layer_operator_and_microseconds(opened: webdriver.Chrome) -> None:
    real = variant(SWAP).timeline
    assert real is not None
    lane = real.ranks[0].lanes[2]
    longest = int((lane.end_us - lane.start_us).argmax())
    text = label(opened, "step-0", (lane.start_us[longest] + lane.end_us[longest]) / 2, 2)
    scope, _, kernel = real.ranks[0].names[lane.name[longest]].rpartition("/")
    place = in_layer(scope)
    assert place is not None
    for words in (kernel, f"layer {place.index}, {place.cell}", "D2H", "µs", "computing stands still for it"):
        assert words in text


def test_a_bubble_says_who_waits(opened: webdriver.Chrome) -> None:
    found = traces(opened, "step-2")["bubble"]
    longest = max(range(len(found["x"])), key=found["x"].__getitem__)
    middle = found["base"][longest] + found["x"][longest] / 2
    assert "stage 1 (rank 4) waits for another" in label(opened, "step-2", middle, found["y"][longest])


def test_a_zoom_shows_the_same_time_everywhere_and_a_double_click_goes_back(opened: webdriver.Chrome) -> None:
    whole = clock(opened, "step-0")
    ActionChains(opened).move_to_element_with_offset(plot(opened, "step-0"), -100, 0).click_and_hold().move_by_offset(
        60, 1
    ).move_by_offset(90, 0).release().perform()
    WebDriverWait(opened, SECONDS).until(lambda driver: clock(driver, "step-2") != whole)
    zoomed = clock(opened, "step-0")
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    assert clock(opened, "step-2") == pytest.approx(zoomed)
    ActionChains(opened).double_click(plot(opened, "step-0")).perform()
    WebDriverWait(opened, SECONDS).until(lambda driver: clock(driver, "step-2") == pytest.approx(whole))


def test_hostile_names_stay_text(opened: webdriver.Chrome) -> None:
    lane = variant(SWAP).timeline.ranks[0].lanes[2]  # type: ignore[union-attr]
    longest = int((lane.end_us - lane.start_us).argmax())
    text = label(opened, "step-1", (lane.start_us[longest] + lane.end_us[longest]) / 2, 2)
    assert "<" in text
    assert opened.find_elements(By.CSS_SELECTOR, "#injected, img, .hoverlayer a, main a[href]") == []
    assert opened.execute_script("return window.injected") is None
