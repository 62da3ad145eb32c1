"""compare.html: complete, self-contained, and every number where it belongs."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from multipool.bench.compare.judge import judge
from multipool.bench.compare.page import write_page
from multipool.bench.compare.scales import SCALES

_VOID = {"meta", "link", "br", "circle", "line"}


class Checker(HTMLParser):
    """Collects text and refuses tags that do not close."""

    def __init__(self):
        super().__init__()
        self.open, self.cells, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in _VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "div"):
            self.cells[-1:] = [(self.cells or [""])[-1] + data]


@pytest.fixture
def page(rows, tmp_path):
    kinds = {kind.column: kind for kind in SCALES["small"].kinds}
    tables = [judge(rows, decoded=True), judge(rows, decoded=False)]
    return write_page(rows, tables, kinds, tmp_path).read_text()


def test_the_page_is_whole_and_needs_nothing_but_itself(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert set(checker.links) == {"data:,", "compare.csv"}


def test_every_regret_stands_in_its_cell_with_its_error(page):
    assert "bn on shapes-c/wrn10-1/ptta: error 50.00 %, regret 20.00" in page
    assert "lame on shapes-c/wrn10-1/ptta: error 20.00 %, regret -16.00" in page
    assert page.count('title="no run"') == 2  # rotta on mixed, in both tables


def test_the_best_of_a_column_and_what_is_worse_than_source_are_marked(page):
    marks = re.findall(r'<td class="([a-z ]*)"[^>]*title="(\S+) on \S+/(\S+): error', page)
    decoded = marks[:11]
    assert ("top", "bn", "ctta") in decoded
    assert ("under", "bn", "ptta") in decoded
    assert ("", "rotta", "ptta") in decoded
    assert ("under", "lame", "mixed") in decoded


def test_the_page_says_what_is_missing_and_that_one_seed_is_little(page):
    assert "1 run is missing" in page
    assert "With one seed" in page
    assert "LAME corrects its outputs" in page


def test_seeds_have_a_spread(row, tmp_path):
    rows = [row("bn", "ptta", 10.0, seed=0), row("bn", "ptta", 12.0, seed=1)]
    text = write_page(rows, [judge(rows, decoded=True)], {}, tmp_path).read_text()
    assert "11.00 ± 1.41" in text
    assert "With one seed" not in text
    assert "of another scale" in text


def test_names_from_a_table_cannot_add_to_the_page(row, tmp_path):
    rows = [row("<script>x</script>", '"><b>', 10.0)]
    text = write_page(rows, [judge(rows, decoded=True)], {}, tmp_path).read_text()
    assert "<script" not in text
    assert '"><b>' not in text


def test_groups_of_columns_are_set_apart(row, tmp_path):
    first = row("bn", "ptta", 10.0)
    rows = [first, row("bn", "ctta", 10.0), replace(first, model="wrn16-2")]
    text = write_page(rows, [judge(rows, decoded=True)], {}, tmp_path).read_text()
    assert text.count('class="group"') == 2
    assert text.count('<td class="edge top"') == 1
