"""The site in a browser: nothing is wider than the screen, on a desk or in a hand."""

from __future__ import annotations

import shutil

import pytest

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402

DRIVER = shutil.which("chromedriver")
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@pytest.mark.slow
@pytest.mark.skipif(DRIVER is None, reason="no chromedriver on this machine")
@pytest.mark.parametrize("screen", SCREENS)
def test_no_page_is_wider_than_the_screen(site, screen):
    width, height = SCREENS[screen]
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--window-size={width},{height}"):
        options.add_argument(flag)
    if screen == "phone":
        metrics = {"width": width, "height": height, "pixelRatio": 2.0}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        wide = []
        for page in sorted(site.rglob("*.html")):
            browser.get(page.as_uri())
            root = "document.documentElement"
            over = browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
            if over > 0:
                wide.append(f"{page.relative_to(site)} by {over} pixels")
        assert not wide
    finally:
        browser.quit()
