"""Debian's chromium, without a window, for the tests of the live page."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SECONDS = 30  # for something to appear; a busy machine takes its time


class Browser:
    """A page in a real browser, and what it complains about."""

    def __init__(self, downloads: Path) -> None:
        webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
        programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
        if None in programs:
            pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
        options = webdriver.ChromeOptions()
        options.binary_location = programs[0]
        for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
            options.add_argument(f"--{word}")
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(programs[1])
        self.driver = webdriver.Chrome(options, service)

    def open(self, address: str, width: int = 1280) -> None:
        """Go to an address, in a window of a width."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.driver.get(address)

    def find(self, css: str) -> list[str]:
        """Return the texts of what is visible."""
        script = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter(e => e.checkVisibility()).map(e => e.textContent)"
        )
        return self.driver.execute_script(script, css)

    def wait(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, SECONDS, 0.1).until(lambda driver: holds())

    def press(self, css: str) -> None:
        """Click on something."""
        self.driver.find_element("css selector", css).click()

    def type(self, css: str, text: str) -> None:
        """Write into a field."""
        field = self.driver.find_element("css selector", css)
        field.clear()
        field.send_keys(text)

    def complaints(self) -> list[str]:
        """Return the errors of scripts, rules and requests since the last time."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def overflow(self) -> int:
        """Return the pixels by which the page is wider than its window."""
        return self.driver.execute_script(
            "return document.documentElement.scrollWidth - window.innerWidth"
        )
