"""The cards of the methods say what the code and the rows of the comparison say."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from statistics import fmean

import pytest
from pages import ROOT
from regrets import regrets

from multipool.methods.table import BUILT_IN

sys.path.insert(0, str(ROOT / "tools" / "docs"))

import cards  # noqa: E402
import standing  # noqa: E402


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_card_names_every_option_and_what_it_is(name):
    told = cards.card(name).partition("## Where it wins")[0]
    for option in fields(BUILT_IN[name].Config):
        (line,) = (line for line in told.splitlines() if line.startswith(f"| `{option.name}` |"))
        assert line.split(" | ")[2].strip(" |"), f"{option.name} of {name} has no comment"


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_method_is_explained_in_three_sentences_or_so(name):
    told = cards.card(name).split("## What it needs")[0].split("\n\n", 2)[2]
    assert 2 <= told.count(". ") + told.count(".\n") <= 9


def test_a_card_has_the_needs_of_its_method():
    rmt, bn = cards.card("rmt"), cards.card("bn")
    assert "| source data | labelled images" in rmt
    assert "| last layer | linear" in rmt
    assert "| source data | none |" in bn
    assert "| normalisation layers | BatchNorm |" in bn
    assert "| memory | `class-balanced`" in cards.card("rotta")


def test_published_settings_of_other_datasets_stand_beside_the_default():
    assert "| `lr` | `0.001`; ImageNet-C `0.0005`; DomainNet-126 `0.00025` |" in cards.card("tent")


@pytest.mark.parametrize(("label", "name"), [("multipool", "multipool"), ("bn", "bn")])
def test_cards_and_results_have_the_same_regrets(label, name):
    (mean,), (worst,), (harmed, count) = regrets()[label]
    found = standing.cells(name)
    assert fmean(cell.regret for cell in found) == pytest.approx(mean)
    assert max(cell.regret for cell in found) == pytest.approx(worst)
    assert sum(cell.error > cell.frozen for cell in found) == harmed
    assert len(found) == count
    assert f"{mean:.1f} points of error more" in standing.section(name)


@pytest.mark.parametrize(
    ("above", "cells"),
    [("**Without the decoder**\n", "cells"), ("## Every method, one seed\n", "one_seed")],
)
def test_cards_and_the_page_of_the_comparison_have_the_same_regrets(above, cells):
    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    after = page.partition(above)[2].partition("| | mean regret")[2].partition("\n\n")[0]
    told = [line.strip("| ").split(" | ") for line in after.splitlines()[2:]]
    checked = 0
    for name, mean, worst, _ in told:
        if found := getattr(standing, cells)(name):  # a method of more seeds has no other row
            assert f"{fmean(cell.regret for cell in found):.1f}" == mean, name
            assert f"{max(cell.regret for cell in found):.1f}" == worst, name
            checked += 1
    assert checked > 8


def test_one_stream_has_no_average():
    told = standing._gap(standing.cells("tent")[:1], "CIFAR", 5)
    assert told.startswith("On one kind of stream (CIFAR; ")
    assert "Over 1 " not in told


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_reference_is_no_list(name):
    origin = cards.card(name).partition("## Reference\n\n")[2].partition("\n\n")[0]
    assert not re.search(r"^\d+\. ", origin, re.MULTILINE)


def test_a_method_that_has_one_seed_only_says_so():
    told = standing.section("membn")
    error = next(c.error for c in standing.one_seed("membn") if c.kind == "ptta")
    assert "one seed; all methods" in told
    assert f"| classes in runs, domain after domain | **{error:.1f}** |" in told
    assert standing.one_seed("tent") == []


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_was_compared(name):
    assert "Not compared yet" not in standing.section(name)
    assert " points of error more than the best" in standing.section(name)


def test_notes_are_kept_and_nothing_else_is_written_by_hand():
    for path in cards.NOTES.glob("*.md"):
        if path.stem in BUILT_IN:
            text = path.read_text(encoding="utf-8")
            assert cards.notes(path.stem).strip() in cards.card(path.stem)
            for part in ("**What it does.**", "**What it needs.**", "| option |"):
                assert part not in text, f"{path.name}: {part} comes from the code"
