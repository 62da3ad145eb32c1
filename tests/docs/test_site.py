"""The site builds without a warning, and is whole in itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

PARTS = ("what-it-needs", "options", "where-it-wins-and-where-it-fails", "example", "reference")


class Loads(HTMLParser):
    """Collects what a page loads by itself: not links, which a reader follows."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "link" and given.get("rel") in ("canonical", "prev", "next"):
            return
        if tag in ("script", "img", "link", "iframe", "source", "object"):
            self.found += [given[key] for key in ("src", "href", "data") if given.get(key)]


def test_nothing_is_loaded_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        reader = Loads()
        reader.feed(page.read_text(encoding="utf-8"))
        outside = [url for url in reader.found if re.match(r"(https?:)?//", url)]
        assert not outside, f"{page.relative_to(site)} loads {outside}"
        for url in reader.found:
            if page.name != "404.html" and not url.startswith(("data:", "#")):
                aim = Path(page.parent, url.partition("?")[0].partition("#")[0])
                assert aim.exists(), f"{page.relative_to(site)} loads {url}, which is not there"


def test_every_method_has_a_card_and_every_command_a_section(site):
    from multipool.cli.main import COMMANDS
    from multipool.methods.table import BUILT_IN

    home = (site / "index.html").read_text(encoding="utf-8")
    for name in BUILT_IN:
        card = (site / "methods" / f"{name}.html").read_text(encoding="utf-8")
        for part in PARTS:
            assert f'<h2 id="{part}">' in card, f"the card of {name} has no part {part}"
        assert f'href="methods/{name}.html"' in home
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"multipool {name}" in page


def test_lists_that_follow_a_sentence_are_lists(site):
    shown = (site / "multipool.html").read_text(encoding="utf-8")
    assert "<li>a <em>centre</em>" in shown
    assert not [page for page in site.rglob("*.html") if "<p>- " in page.read_text("utf-8")]


def test_what_ptta_is_stands_where_it_first_appears(site):
    for page in site.rglob("*.html"):
        shown = re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))
        first = shown.find("PTTA")
        near = " ".join(shown[max(0, first - 120) : first + 120].split()).lower()
        assert first < 0 or re.search("practical (test-time adaptation|tta)", near), page.name


def test_every_public_name_of_the_reference_is_rendered(site):
    shown = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in ("adapt", "load", "Adapter", "SequenceDecoder", "check_method"):
        assert name in shown
    assert ":class:" not in shown
