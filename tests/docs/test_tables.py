"""Every table of measurements agrees with its rows in docs/data, or says why it has none."""

from __future__ import annotations

from math import isnan

import pytest
from pages import numbers, tables
from registry import PAGES_WITHOUT_ROWS, TABLES, WITHOUT_ROWS
from renew import SLACK, renewed
from rows import ROOT

FOUND = {table.key: table for table in tables()}


def test_no_two_tables_have_the_same_key_where_it_matters():
    listed = [t.key for t in tables() if t.page not in PAGES_WITHOUT_ROWS and t.measured]
    assert len(listed) == len(set(listed))


def test_every_table_of_measurements_is_recomputed_or_listed_with_a_reason():
    measured = [table for table in FOUND.values() if table.measured]
    unlisted = [
        f"{table.page}:{table.line} {table.key}"
        for table in measured
        if table.page not in PAGES_WITHOUT_ROWS and table.key not in {**TABLES, **WITHOUT_ROWS}
    ]
    assert not unlisted, "give these rows in docs/data and a function here, or a reason"


def test_the_lists_name_no_table_that_is_gone():
    assert set(TABLES) | set(WITHOUT_ROWS) <= set(FOUND)
    assert not set(TABLES) & set(WITHOUT_ROWS)
    assert all((ROOT / page).is_file() for page in PAGES_WITHOUT_ROWS)
    assert all([*WITHOUT_ROWS.values(), *PAGES_WITHOUT_ROWS.values()])


@pytest.mark.parametrize("key", list(TABLES), ids=" / ".join)
def test_a_table_says_what_its_rows_say(key):
    table, expected = FOUND[key], TABLES[key]()
    wrong = []
    assert {row[0] for row in table.body} == set(expected), "rows of the table and of the data"
    for label, *cells in table.body:
        for place, (cell, values) in enumerate(zip(cells, expected[label], strict=True), start=1):
            if values is not None and not _same(cell, values):
                wrong.append(f"{label}, {table.header[place]}: {cell!r}, rows say {values}")
    assert not wrong, "\n".join(wrong)


def _same(cell: str, values: list[float]) -> bool:
    """Tell whether a cell shows these numbers, each rounded to the places it has there."""
    shown = numbers(cell)
    wanted = [value for value in values if not isnan(value)]
    return len(shown) == len(wanted) and all(
        abs(value - number) <= half + SLACK
        for (number, half), value in zip(shown, wanted, strict=True)
    )


def test_a_wrong_digit_is_seen():
    assert _same("38.4 ± 0.3", [38.41, 0.298])
    assert not _same("38.5 ± 0.3", [38.41, 0.298])
    assert not _same("38.4", [38.41, 0.298])


def test_a_cell_is_renewed_where_it_is_wrong_and_keeps_its_words():
    assert renewed(" **26.3, 6.5** (2) ", [26.31, 3.49, 2]) == " **26.3, 3.5** (2) "
    assert renewed(" -0.35 ± 0.20 ", [0.254, 0.2]) == " +0.25 ± 0.20 "
    assert renewed(" – ", None) == " – "
    assert renewed(" 41.3 ", [41.35]) == " 41.3 "  # a half may be rounded either way
