"""Regret, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.bench.compare.regret import Score, average_seeds, regrets, standings

ERRORS = {
    "short": {"source": 40.0, "bn": 50.0, "tent": 45.0, "rotta": 31.0},
    "long": {"source": 40.0, "bn": 30.0, "tent": 20.0, "rotta": 22.5},
    "mixed": {"source": 40.0, "bn": 38.0, "tent": 39.0},
}


def test_seeds_are_averaged_before_anything_is_compared():
    scores = [
        Score("a", "bn", 0, 10.0),
        Score("a", "bn", 1, 20.0),
        Score("a", "tent", 0, 14.0),
        Score("a", "tent", 1, 14.0),
        Score("b", "bn", 1, 7.0),
    ]
    errors = average_seeds(scores)
    assert errors == {"a": {"bn": 15.0, "tent": 14.0}, "b": {"bn": 7.0}}
    # The best of seed 0 is bn, of seed 1 tent: of the means it is tent alone.
    assert regrets(errors)["a"] == {"bn": 1.0, "tent": 0.0}


def test_regret_is_the_error_minus_the_best_of_the_column():
    assert regrets(ERRORS) == {
        "short": {"source": 9.0, "bn": 19.0, "tent": 14.0, "rotta": 0.0},
        "long": {"source": 20.0, "bn": 10.0, "tent": 0.0, "rotta": 2.5},
        "mixed": {"source": 2.0, "bn": 0.0, "tent": 1.0},
    }


def test_standings_have_mean_and_worst_over_the_columns_that_a_method_has():
    table = standings(ERRORS, "source")
    assert [s.row for s in table] == ["rotta", "tent", "bn", "source"]
    rotta, tent, bn, source = table
    assert (rotta.columns, rotta.mean, rotta.worst, rotta.worst_column) == (2, 1.25, 2.5, "long")
    assert (tent.columns, tent.mean, tent.worst, tent.worst_column) == (3, 5.0, 14.0, "short")
    assert bn.mean == pytest.approx(29 / 3)
    assert source.mean == pytest.approx(31 / 3)


def test_standings_count_the_columns_that_are_worse_than_source():
    rotta, tent, bn, source = standings(ERRORS, "source")
    assert (rotta.worse, rotta.excess) == (0, -9.0)
    assert (tent.worse, tent.excess) == (1, 5.0)
    assert (bn.worse, bn.excess) == (1, 10.0)
    assert (source.worse, source.excess) == (None, None)


def test_without_source_nothing_is_worse_than_it():
    (only,) = standings({"a": {"bn": 3.0}}, "source")
    assert (only.mean, only.worse, only.excess) == (0.0, None, None)


def test_a_row_apart_sets_no_best_and_comes_last():
    errors = {"a": {"lame": 10.0, "bn": 30.0, "source": 35.0}}
    assert regrets(errors, {"lame"}) == {"a": {"lame": -20.0, "bn": 0.0, "source": 5.0}}
    assert [s.row for s in standings(errors, "source", {"lame"})] == ["bn", "source", "lame"]


def test_a_row_apart_is_the_best_where_it_is_alone():
    assert regrets({"a": {"lame": 10.0}}, {"lame"}) == {"a": {"lame": 0.0}}


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from("wxyz"), st.floats(0, 100), min_size=1),
        min_size=1,
    )
)
def test_no_regret_is_below_0_and_every_column_has_a_best(errors):
    for values in regrets(errors).values():
        assert min(values.values()) == 0
    for standing in standings(errors, "w"):
        assert 0 <= standing.mean <= standing.worst + 1e-9
