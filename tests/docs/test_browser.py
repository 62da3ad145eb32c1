"""The site in a browser: nothing is wider than the screen, and nothing comes from elsewhere."""

from __future__ import annotations

import shutil

import pytest

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402

DRIVER = shutil.which("chromedriver")
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)
LOADED = "return performance.getEntriesByType('resource').map(entry => entry.name)"
CUT = """return [...document.querySelectorAll('.md-typeset img')].filter(
    image => image.naturalWidth === 0 || image.getBoundingClientRect().right > innerWidth + 1
).map(image => image.src)"""
# A phone scrolls code sideways; a desk need not.
LONG = """return [...document.querySelectorAll('.md-typeset pre > code')].filter(
    code => code.scrollWidth > code.clientWidth + 1
).map(code => code.textContent.slice(0, 60))"""
BROKEN = """return [...document.querySelectorAll('.md-typeset .whole')].filter(
    part => part.getClientRects().length > 1
).map(part => part.textContent)"""


@pytest.mark.slow
@pytest.mark.skipif(DRIVER is None, reason="no chromedriver on this machine")
@pytest.mark.parametrize("screen", SCREENS)
def test_no_page_is_wider_than_the_screen_or_asks_for_anything_outside(site, screen, tmp_path):
    width, height = SCREENS[screen]
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={tmp_path}"):
        options.add_argument(flag)
    if screen == "phone":
        metrics = {"width": width, "height": height, "pixelRatio": 2.0}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        wide, outside, cut, broken = [], [], [], []
        for page in sorted(site.rglob("*.html")):
            browser.get(page.as_uri())
            root = "document.documentElement"
            over = browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
            if over > 0:
                wide.append(f"{page.relative_to(site)} by {over} pixels")
            asked = browser.execute_script(LOADED)
            outside += [url for url in asked if not url.startswith(("file:", "data:"))]
            cut += browser.execute_script(CUT)
            cut += browser.execute_script(LONG) if screen == "desktop" else []
            broken += browser.execute_script(BROKEN)
        assert not wide
        assert not outside
        assert not cut, "figures that did not load or reach over the edge, code that is cut off"
        assert not broken, "options or names that end on another line than they begin"
    finally:
        browser.quit()
