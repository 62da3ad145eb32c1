"""The page of claims says nothing that the pages it links do not say."""

from __future__ import annotations

import re

from pages import ROOT, read

PAGE = ROOT / "docs" / "results" / "claims.md"
SOURCES = ("docs/notebook/results.md", "docs/guides/diagnose.md", "docs/guides/imagenet.md")
VERDICTS = ("reproduced", "not reproduced", "depends on", "not run")
_DECIMAL = re.compile(r"\d+\.\d+")


def _rows():
    return [row for table in read(PAGE) for row in table.body]


def test_every_claim_has_a_verdict():
    assert len(_rows()) > 20
    assert {row[1].startswith(VERDICTS) for row in _rows()} == {True}
    words = [next(word for word in VERDICTS if row[1].startswith(word)) for row in _rows()]
    assert set(words) == set(VERDICTS)


def test_every_number_found_stands_on_the_pages_of_results():
    known = set()
    for source in SOURCES:
        known |= set(_DECIMAL.findall((ROOT / source).read_text(encoding="utf-8")))
    said = {number for row in _rows() for number in _DECIMAL.findall(row[2])}
    assert len(said) > 60
    assert said <= known, sorted(said - known)
