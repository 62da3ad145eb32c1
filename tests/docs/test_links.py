"""Every link of the documentation leads somewhere, heading included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, pages

ALL = [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
# Made from the code when the site is built; test_site.py follows links to them.
GENERATED = re.compile(r"docs/(methods/[\w-]+|reference/commands|reference/changes)\.md")
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)


def links(text):
    """Return the targets of all links within the repository; code is not looked at."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    found = [first or second for first, second in _LINK.findall(prose)]
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]


def anchors(page):
    """Return the names of a page's headings, as GitHub and MkDocs make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    given = re.findall(r"\{ ?#([\w-]+) ?\}", text)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles} | {
        *given
    }


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page):
    for link in links(page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        aim = Path(page.parent, target).resolve() if target else page
        inside = page.is_relative_to(ROOT / "docs") and aim.is_relative_to(ROOT)
        if inside and GENERATED.fullmatch(aim.relative_to(ROOT).as_posix()):
            continue
        assert aim.exists(), f"{link} leads nowhere"
        if anchor and aim.suffix == ".md":
            assert anchor in anchors(aim), f"{link}: no such heading"


def test_links_are_found():
    assert links("[a](b.md) `[c](d.md)` [e](https://f) and\n[g]: h.md#i") == ["b.md", "h.md#i"]
