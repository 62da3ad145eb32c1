"""Streams of few classes: which are drawn, what is shown of them, and what it depends on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.data.few import shown_rows
from multipool.data.streams import PROTOCOLS, few

tables = st.integers(1, 80).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 12), min_size=n, max_size=n).map(np.asarray),
        st.lists(st.integers(0, 4), min_size=n, max_size=n).map(np.asarray),
    )
)
seeds, counts = st.integers(0, 99), st.integers(1, 15)


@given(table=tables, shown=counts, seed=seeds)
@settings(max_examples=60, deadline=None)
def test_a_domain_shows_every_image_of_so_many_of_its_classes_once_and_no_other(table, shown, seed):
    labels, domains = table
    order = few(labels, domains, shown, seed)
    assert order.dtype == np.int64
    assert (np.diff(domains[order]) >= 0).all()
    for d in np.unique(domains):
        inside = np.flatnonzero(domains == d)
        mine = order[domains[order] == d]
        classes = np.unique(labels[mine])
        assert len(classes) == min(shown, len(np.unique(labels[inside])))
        assert sorted(mine.tolist()) == inside[np.isin(labels[inside], classes)].tolist()
    np.testing.assert_array_equal(order, few(labels, domains, shown, seed))


@given(table=tables, shown=counts, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_a_domain_is_the_same_whatever_other_domains_there_are(table, shown, seed):
    labels, domains = table
    order = few(labels, domains, shown, seed)
    for d in np.unique(domains):
        inside = np.flatnonzero(domains == d)
        alone = inside[few(labels[inside], domains[inside], shown, seed)]
        np.testing.assert_array_equal(order[domains[order] == d], alone)


@given(table=tables, shown=counts, seed=seeds, share=st.floats(0.1, 1))
@settings(max_examples=40, deadline=None)
def test_a_part_of_what_is_shown_is_shown_whole(table, shown, seed, share):
    labels = table[0]
    rows = shown_rows(labels, shown, seed, domain=3)
    part = labels[rows[: max(1, int(share * len(rows)))]]
    assert len(shown_rows(part, shown, seed, domain=3)) == len(part)


@pytest.mark.parametrize("shown", [1, 2, 5])
def test_domains_and_seeds_have_classes_of_their_own(shown):
    labels, domains = np.tile(np.arange(10), 60), np.repeat(np.arange(30), 20)
    drawn = set()
    for seed in (0, 1):
        order = few(labels, domains, shown, seed)
        sets = [frozenset(labels[order[domains[order] == d]].tolist()) for d in range(30)]
        assert len({c for s in sets for c in s}) >= 8  # thirty draws: nearly all classes
        drawn.add(tuple(sets))
        # Independent draws: two in a row agree one time in ten with one class, else less often.
        assert sum(a == b for a, b in zip(sets[:-1], sets[1:], strict=True)) < 10
    assert len(drawn) == 2


def test_classes_come_in_random_order():
    labels, domains = np.repeat(np.arange(10), 200), np.zeros(2000, int)
    order = few(labels, domains, 2, seed=4)
    stays = np.mean(np.diff(labels[order]) == 0)
    assert stays == pytest.approx(0.5, abs=0.1)
    assert (np.diff(order) < 0).mean() == pytest.approx(0.5, abs=0.1)


def test_it_is_chosen_by_name_and_shows_one_class_unless_told():
    assert PROTOCOLS["few"] is few
    labels, domains = np.tile(np.arange(4), 5), np.zeros(20, int)
    assert len(few(labels, domains)) == 5


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: few([0], [0], 0), "shown must be a whole number of at least 1, got 0"),
        (lambda: few([0], [0], 1.5), "shown must be a whole number of at least 1, got 1.5"),
        (lambda: few([0], [0], True), "shown must be a whole number of at least 1, got True"),
        (lambda: few([0, 1], [0]), "same length, got 2 labels and 1 domains"),
        (lambda: few([], []), "labels must be a non-empty list"),
        (lambda: few([0], [0], seed=-1), "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
