"""A real browser: Debian's chromium by its chromedriver, without a window, with a profile of its own."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.gateway.live import PATIENCE

T = TypeVar("T")


class Browser:
    """What a test does and sees in it."""

    def __init__(self) -> None:
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if chromium is None or driver is None:
            pytest.skip("no browser on this machine: apt-get install chromium chromium-driver")
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # Half of its types are not told.
        self.driver: Any = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        self.size(1280)

    def stop(self) -> None:
        self.driver.quit()

    def open(self, url: str) -> None:
        """As if it were opened for the first time: the same address with another hash would load nothing."""
        self.driver.get("about:blank")
        self.driver.get(url)

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def save(self, path: Path) -> None:
        assert self.driver.save_screenshot(str(path))

    def settle(self) -> None:
        """Wait until the page has asked the gateway and drawn the answer."""
        script = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))"
        self.wait(lambda: self.run("return document.getElementById('status').dataset.text") == "live" or None)
        self.driver.execute_async_script(
            script.replace("arguments[0]", "done").join(("const done = arguments[0];", ""))
        )

    def find(self, selector: str) -> WebElement:
        """The first one, when it is there."""
        return self.wait(lambda: next(iter(self.all(selector)), None))

    def all(self, selector: str) -> list[WebElement]:
        found: list[WebElement] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def click(self, selector: str) -> None:
        """Click the first one, when it is there; a page that draws itself again may replace it in between."""

        def click() -> bool | None:
            for element in self.all(selector)[:1]:
                element.click()
                return True
            return None

        self.wait(click)

    def text(self, selector: str) -> str:
        return self.wait(lambda: [each.text for each in self.all(selector)[:1]] or None)[0]

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus; a page that draws itself again may replace it in between."""

        def press(key: str) -> bool:
            self.driver.switch_to.active_element.send_keys(key)
            return True

        for key in keys:
            self.wait(partial(press, key))

    def focused(self) -> str:
        """What has the focus, by its name for people."""
        return str(self.run("const a = document.activeElement; return a.ariaLabel || a.textContent.trim() || a.id"))

    def tab_to(self, name: str, most: int = 60) -> None:
        """Press Tab until something has the focus."""
        for _ in range(most):
            self.press(Keys.TAB)
            if self.focused() == name:
                return
        raise AssertionError(f"no Tab leads to {name!r}")

    def wait(self, found: Callable[[], T | None]) -> T:
        """What is found, once it is."""
        waiting = WebDriverWait(
            self.driver, PATIENCE, poll_frequency=0.02, ignored_exceptions=(StaleElementReferenceException,)
        )

        def look(_driver: object) -> T | None:
            return found()

        result = waiting.until(look)
        assert result is not None
        return result

    def complaints(self) -> list[str]:
        """What the browser found wrong since the last time."""
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
