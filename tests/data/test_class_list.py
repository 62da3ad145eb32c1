"""Lists of a model's classes."""

from __future__ import annotations

import pytest

from multipool.data.class_list import ClassList, read_class_list


def read(tmp_path, text):
    (tmp_path / "classes.txt").write_text(text)
    return read_class_list(tmp_path / "classes.txt")


def test_names_alone_are_all_classes_in_order_and_may_have_spaces(tmp_path):
    assert read(tmp_path, "golden retriever\n\n cat \n") == ClassList(("golden retriever", "cat"))
    assert read_class_list(None) is None


def test_numbers_say_which_outputs_they_are(tmp_path):
    assert read(tmp_path, "207 dog\n3  cat\n") == ClassList(("dog", "cat"), (207, 3))
    # One line without a number: the digits of the other are part of its name.
    assert read(tmp_path, "3 musketeers\ncat\n") == ClassList(("3 musketeers", "cat"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cat\ncat\n", "must name every class once, got cat twice"),
        ("1 cat\n1 dog\n", "must name every number once, got 1 twice"),
        ("cat\n", "must name at least 2 classes, one a line, got 1"),
        ("", "must name at least 2 classes, one a line, got 0"),
    ],
)
def test_a_wrong_list_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(tmp_path, text)


def test_a_list_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no readable list of classes at .*gone.txt"):
        read_class_list(tmp_path / "gone.txt")
