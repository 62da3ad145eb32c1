"""Methods as they are written on the command line."""

from __future__ import annotations

import pytest

from multipool.bench.compare.entrant import Entrant, is_corrector, label


def test_a_word_names_method_memory_and_options():
    entrant = Entrant.parse("rotta+mcm:lr=0.01:bn-momentum=0.1")
    assert entrant == Entrant("rotta", "mcm", {"lr": 0.01, "bn_momentum": 0.1})
    assert entrant.method_name == "rotta:lr=0.01:bn_momentum=0.1"
    assert entrant.memory_name == "mcm"


def test_values_are_numbers_truth_values_or_words():
    options = Entrant.parse("bn:a=1:b=false:c=ce").options
    assert options == {"a": 1, "b": False, "c": "ce"}
    assert Entrant("bn", None, options).method_name == "bn:a=1:b=false:c=ce"


def test_a_pool_of_its_own_goes_without_saying():
    assert Entrant("rotta").memory_name == "single"
    assert Entrant("bn").memory_name == ""
    assert label("bn", "") == "bn"
    assert label("of another version", "single") == "of another version"


def test_an_ablation_of_the_bank_does_not_fall_together_with_the_default():
    words = ("multipool", "multipool+single", "multipool:new=0.3")
    entrants = [Entrant.parse(word) for word in words]
    assert [entrant.memory_name for entrant in entrants] == ["mcm+", "single", "mcm+"]
    assert [label(entrant.method_name, entrant.memory_name) for entrant in entrants] == [
        "multipool",
        "multipool + single",
        "multipool:new=0.3",
    ]


def test_lame_corrects_outputs_by_itself_whatever_its_options():
    assert is_corrector("lame")
    assert is_corrector("lame:k=3")
    assert not is_corrector("rotta + mcm")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("rota", "did you mean 'rotta'"),
        ("rotta:lr", "OPTION=VALUE, got 'lr'"),
        ("rotta:=3", "OPTION=VALUE, got '=3'"),
        ("", "unknown method ''"),
    ],
)
def test_a_mistaken_word_is_one_sentence(word, sentence):
    with pytest.raises(ValueError, match=sentence):
        Entrant.parse(word)
