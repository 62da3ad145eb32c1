"""Names are found, and unknown ones are told what there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.core import lookup, unknown


def test_a_known_name_is_found():
    assert lookup({"acc": 1, "gcc": 2}, "gcc", "consolidation") == 2


def test_a_near_name_is_suggested_and_all_are_listed():
    with pytest.raises(ValueError, match="unknown method 'rota'; did you mean 'rotta'") as caught:
        lookup({"rotta": 1, "petta": 2}, "rota", "method")
    assert str(caught.value).endswith("Choose one of: petta, rotta")


def test_a_far_name_is_not_guessed_at():
    assert str(unknown("letter", "xyz", ["a"])) == "unknown letter 'xyz'; choose one of: a"


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=8), min_size=1, unique=True))
def test_every_name_outside_the_table_is_one_sentence(name, known):
    table = dict.fromkeys(known)
    if name in table:
        assert lookup(table, name, "thing") is None
    else:
        with pytest.raises(ValueError, match="unknown thing"):
            lookup(table, name, "thing")


def test_capitals_are_no_other_word():
    with pytest.raises(ValueError, match=r"unknown method 'TENT'; did you mean 'tent'\?"):
        lookup({"tent": 1, "bn": 2}, "TENT", "method")
