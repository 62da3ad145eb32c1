"""Figures of the documentation are made by the code, and the page shows all of them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pages import ROOT

TOOLS = ROOT / "tools" / "figures"


def names():
    """Return the figures that ``draw.py`` can make."""
    text = (TOOLS / "draw.py").read_text(encoding="utf-8")
    return re.findall(r'^    "(\w+)": \w+\.\w+,$', text, re.MULTILINE)


def test_every_figure_can_be_drawn_again_and_is_shown():
    drawn = {path.stem for path in (ROOT / "docs" / "figures").glob("*.svg")}
    assert drawn == set(names())
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        name
        for page in pages
        for name in re.findall(r"figures/(\w+)\.svg\)", page.read_text(encoding="utf-8"))
    }
    assert set(names()) <= shown
    assert not list((ROOT / "docs").rglob("*.png")), "type in a picture shrinks with it on a phone"


@pytest.mark.parametrize("name", ["correlation", "pool_size", "most_clusters"])
def test_a_figure_drawn_again_is_the_same(name, tmp_path):
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(TOOLS)!r}); import draw, style\n"
        f"style.write(draw.FIGURES[{name!r}](), pathlib.Path({str(tmp_path / 'again.svg')!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    kept = (ROOT / "docs" / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == kept
