"""Class-balanced subsets, and rows dealt out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.data.subset import balanced_rows, dealt_rows


@given(
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=120),
    count=st.integers(1, 130),
    seed=st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_counts_are_as_even_as_the_classes_allow(labels, count, seed):
    labels = np.asarray(labels)
    rows = balanced_rows(labels, count, seed)
    assert len(rows) == min(count, len(labels))
    assert (np.diff(rows) > 0).all()
    taken = np.bincount(labels[rows], minlength=10)
    available = np.bincount(labels, minlength=10)
    unfinished = taken[taken < available]
    if len(unfinished):  # a class that could still give has at most one image less than any other
        assert taken.max() - unfinished.min() <= 1


def test_a_subset_is_seeded_and_random_over_images_and_classes():
    labels = np.repeat(np.arange(100), 10)
    first = balanced_rows(labels, 50, seed=0)
    np.testing.assert_array_equal(first, balanced_rows(labels, 50, seed=0))
    assert (first != balanced_rows(labels, 50, seed=1)).any()
    assert len(set((first % 10).tolist())) > 5  # not always the first image of a class


@given(
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=120),
    hands=st.integers(1, 20),
    seed=st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_every_row_is_dealt_once_and_hands_are_alike_in_all_and_in_each_class(labels, hands, seed):
    labels = np.asarray(labels)
    dealt = dealt_rows(labels, hands, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(dealt)), np.arange(len(labels)))
    assert all((np.diff(hand) > 0).all() for hand in dealt)
    of_class = np.stack([np.bincount(labels[hand], minlength=10) for hand in dealt])  # (hands, 10)
    assert np.ptp(of_class, axis=0).max() <= 1
    assert np.ptp(of_class.sum(axis=1)) <= 1


def test_dealing_is_seeded_and_random():
    labels = np.repeat(np.arange(10), 30)
    first = dealt_rows(labels, 15, seed=0)[0]
    np.testing.assert_array_equal(first, dealt_rows(labels, 15, seed=0)[0])
    assert set(first) != set(dealt_rows(labels, 15, seed=1)[0])
    assert len(set((first % 30).tolist())) > 5  # not always the first images of a class
