"""The live page: what is sent, and what a browser makes of it."""

import asyncio
import re

import httpx
import pytest

from multipool.serve.gate import Access
from multipool.serve.page import live_page

from .browser import Browser

TOKEN = b"0123456789abcdef"
LONG = "hall-7.north-entrance.floor-2.camera-with-a-name-of-64-characters"[:64]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("downloads"))
    yield found
    found.driver.quit()


@pytest.fixture
def busy(live, infer, make_images):
    """Return a function that starts a service with streams that have something to show."""

    def start(access=Access(), headers=None):
        served = live(access)

        async def ask():
            base = f"http://{served.address}"
            async with httpx.AsyncClient(base_url=base, headers=headers) as client:
                for step in range(3):
                    await infer(client, make_images(32, seed=step), sequence_id="camera-1")
                await infer(client, make_images(2), sequence_id=LONG)

        asyncio.run(ask())
        return served

    return start


def test_the_page_is_whole_in_itself():
    content, headers = live_page()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", content)
    assert not re.findall(r"@import|url\(", content)
    outside = set(re.findall(r"https?://[^\s\"'`]+", content))
    assert outside == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_the_page_shows_a_stream_and_saves_it(browser, busy):
    served = busy()
    browser.open(f"http://{served.address}/#camera-1")
    browser.wait(lambda: browser.find("#pools img") or browser.find("#pools .pool"))
    name, samples, pools, *_ = browser.find("#streams tr[data-name='camera-1'] td")
    assert (name, samples, pools) == ("camera-1", "96", "1")
    assert LONG in browser.find("#streams td")
    assert len(browser.find("#entropy svg path.line")) == 1
    assert len(browser.find("#accuracy svg")) == 1
    shown = "return [...document.querySelectorAll('#pools img')].map(i => i.naturalWidth)"
    browser.wait(lambda: all(browser.driver.execute_script(shown)))
    assert browser.driver.execute_script(shown)
    assert not browser.find("#events tr[data-kind='snapshot']")
    browser.press("#snapshot")
    browser.wait(lambda: browser.find("#events tr[data-kind='snapshot']"))
    browser.wait(lambda: "saved at" in browser.find("#facts")[0])
    assert browser.complaints() == []


def test_the_page_resets_and_downloads_a_stream(browser, busy, tmp_path):
    served = busy()
    browser.open(f"http://{served.address}/#camera-1")
    browser.wait(lambda: browser.find("#download"))
    allowed = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    browser.press("#download")
    browser.wait(lambda: list(tmp_path.glob("camera-1.safetensors")))
    browser.press("#reset")
    browser.driver.switch_to.alert.dismiss()
    assert not browser.find("#events tr[data-kind='reset']")
    browser.press("#reset")
    browser.driver.switch_to.alert.accept()
    browser.wait(lambda: browser.find("#events tr[data-kind='reset']"))
    samples = "#streams tr[data-name='camera-1'] td:nth-child(2)"
    browser.wait(lambda: browser.find(samples) == ["0"])
    assert browser.complaints() == []


def test_the_page_asks_for_the_token(browser, busy):
    served = busy(Access(TOKEN), {"Authorization": f"Bearer {TOKEN.decode()}"})
    browser.open(f"http://{served.address}/")
    browser.wait(lambda: browser.find("#ask"))
    assert not browser.find("#main")
    assert httpx.post(f"http://{served.address}/api/streams/camera-1/reset").status_code == 401
    browser.type("#token", "another word of that length")
    browser.press("#ask button")
    browser.wait(lambda: browser.find("#problem") == ["That is not the token."])
    browser.type("#token", TOKEN.decode())
    browser.press("#ask button")
    browser.wait(lambda: browser.find("#streams tr[data-name='camera-1']"))
    assert not browser.find("#ask")
    browser.wait(lambda: browser.find("#snapshot"))
    browser.press("#snapshot")
    browser.wait(lambda: browser.find("#events tr[data-kind='snapshot']"))
    browser.complaints()  # the refusals are in it


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_no_wider_than_its_window(browser, busy, width):
    browser.open(f"http://{busy().address}/#{LONG}", width)
    browser.wait(lambda: browser.find("#pools *"))
    assert browser.overflow() <= 0
