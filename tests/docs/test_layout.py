"""What a page must keep to so that nothing is cut: code fits, comments stand above commands."""

from __future__ import annotations

import doctest
import importlib
import re
import sys

import pytest
from pages import ROOT, pages

sys.path.insert(0, str(ROOT / "tools" / "docs"))

FITS = 80  # columns of code beside the navigation on a screen of 1280 pixels
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_is_not_cut_at_the_edge(page):
    """Commands and what a program prints are wrapped by the browser; other code is not."""
    code = [text for kind, text in blocks(page) if kind not in ("", "text")]
    assert not [line for text in code for line in text.splitlines() if len(line) > FITS]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_command_has_no_comment_or_column_behind_it(page):
    """They would be wrapped with it, and stand anywhere."""
    lines = [line for kind, text in blocks(page) if kind == "" for line in text.splitlines()]
    assert not [line for line in lines if re.search(r"\S {2,}\S", line)]


@pytest.mark.parametrize("name", ["hooks", "cards", "standing", "commands"])
def test_the_examples_of_what_builds_the_site_are_true(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_options_and_names_of_datasets_stay_whole(site):
    shown = (site / "guides" / "reproduce.html").read_text(encoding="utf-8")
    assert '<code><span class="whole">--limit</span> N</code>' in shown
    assert 'the <span class="whole">CIFAR-10-C</span> column' in shown
