"""The concluding sentence."""

from __future__ import annotations

from multipool.bench.compare.judge import conclude
from multipool.bench.compare.regret import standings


def test_the_sentence_names_the_smallest_mean_the_worst_case_and_the_next():
    errors = {
        "a": {"source": 40.0, "multipool": 10.0, "bn": 12.0},
        "b": {"source": 40.0, "multipool": 20.5, "bn": 20.0},
    }
    assert conclude(standings(errors, "source")) == (
        "Use multipool: over 2 kinds of stream it errs 0.25 points more than the best of each on "
        "average and 0.50 points at worst (b); next is bn with 1.00 and 2.00. It was nowhere "
        "worse than the source model."
    )


def test_the_best_of_all_columns_is_said_to_be_that():
    errors = {"a": {"source": 40.0, "bn": 30.0}, "b": {"source": 40.0, "bn": 30.0}}
    told = conclude(standings(errors, "source"))
    assert told.startswith("Use bn: it is the best on all 2 kinds of stream; next is source with")


def test_what_speaks_against_the_winner_is_said():
    errors = {
        "a": {"source": 40.0, "bn": 10.0, "rotta": 13.0},
        "b": {"source": 40.0, "bn": 10.0, "rotta": 13.0},
        "c": {"source": 10.0, "bn": 15.0, "rotta": 14.0},
    }
    told = conclude(standings(errors, "source"))
    assert told.startswith("Use bn: over 3 kinds")
    assert "worse than the source model in 1 of 3, by at most 5.00 points" in told
    assert told.endswith("The smallest worst case is that of rotta: 4.00 points (c).")


def test_a_method_left_out_of_a_column_is_not_recommended():
    errors = {"a": {"source": 40.0, "bn": 30.0, "tent": 20.0}, "b": {"source": 40.0, "bn": 30.0}}
    assert conclude(standings(errors, "source")).startswith("Use bn:")


def test_a_row_apart_is_not_recommended():
    errors = {"a": {"source": 40.0, "lame": 10.0}}
    table = standings(errors, "source", {"lame"})
    assert conclude(table, {"lame"}).startswith("Use source: it is the best on one kind of stream.")


def test_nothing_follows_from_nothing():
    assert "Nothing can be concluded" in conclude([])
