"""What a person does with a page in a browser."""

from __future__ import annotations

from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait


def click(browser: webdriver.Chrome, x: float, y: float) -> None:
    """At a place of the window, in pixels."""
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **button})


def wait_until_nothing_is_wider(browser: webdriver.Chrome, width: int, seconds: float) -> None:
    """In a window of that width, in pixels. Raises TimeoutException where something stays wider."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        WebDriverWait(browser, seconds).until(
            lambda driver: driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
