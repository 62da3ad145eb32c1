"""The page of methods and kinds of model says what the code says."""

from fits import PAGE, renewed


def test_the_table_is_the_one_that_the_code_makes():
    text = PAGE.read_text(encoding="utf-8")
    assert renewed(text) == text, "run python tests/docs/fits.py"


def test_a_line_that_is_wrong_is_seen():
    text = PAGE.read_text(encoding="utf-8")
    assert renewed(text.replace("| `bn` | yes |", "| `bn` | – |")) == text
