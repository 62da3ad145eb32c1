"""The small comparison's sentence is what its rows say."""

from __future__ import annotations

from pages import ROOT
from small import judgement


def test_the_page_quotes_the_conclusion():
    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    assert f'With the decoder: "{judgement(True).conclusion}"' in page
