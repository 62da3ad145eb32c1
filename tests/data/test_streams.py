"""Orders of indices: each index once, the structure of the protocol, its published statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.data.streams import (
    PROTOCOLS,
    ctta,
    gradual,
    interleaved,
    mixed,
    ptta,
    recurring,
)

tables = st.integers(1, 80).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 12), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.lists(st.integers(1, 5), min_size=n, max_size=n),
    )
)


def call(name, labels, domains, severities, seed):
    extra = {"severities": severities} if name == "gradual" else {}
    extra |= {"rounds": 3} if name == "recurring" else {}
    extra |= {"shown": 13} if name == "few" else {}  # as many classes as a table can have
    return PROTOCOLS[name](labels, domains, seed=seed, **extra)


@pytest.mark.parametrize("name", PROTOCOLS)
@given(table=tables, seed=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_every_protocol_shows_every_index_once_a_round(name, table, seed):
    labels, domains, severities = table
    order = call(name, labels, domains, severities, seed)
    assert order.dtype == np.int64
    for part in order.reshape(3 if name == "recurring" else 1, -1):
        assert sorted(part.tolist()) == list(range(len(labels)))
    np.testing.assert_array_equal(order, call(name, labels, domains, severities, seed))


@pytest.mark.parametrize("name", [n for n in PROTOCOLS if n not in ("mixed", "interleaved")])
@given(table=tables)
@settings(max_examples=20, deadline=None)
def test_domains_are_visited_by_ascending_id(name, table):
    labels, domains, severities = table
    order = call(name, labels, domains, severities, 0)
    shown = np.asarray(domains)[order].reshape(3 if name == "recurring" else 1, -1)
    assert (np.diff(shown, axis=1) >= 0).all()


@given(
    table=tables,
    slots=st.integers(1, 9),
    gamma=st.sampled_from([1e-9, 0.01, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_a_domain_is_cut_into_slots_that_show_each_class_as_one_contiguous_chunk(
    table, slots, gamma, seed
):
    labels = np.asarray(table[0])
    domains = np.zeros(len(labels), int)
    order = ptta(labels, domains, gamma=gamma, slots=slots, seed=seed)
    # Dataset order inside a class.
    for c in np.unique(labels):
        assert (np.diff(order[labels[order] == c]) > 0).all()
    # Greedy: a class seen again after another one must be in a later slot; S slots suffice.
    needed, seen, last = 1, set(), None
    for label in labels[order].tolist():
        if label != last and label in seen:
            needed, seen = needed + 1, set()
        seen.add(label)
        last = label
    assert needed <= slots


@given(seed=st.integers(0, 999), classes=st.integers(1, 40), each=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_the_floor_leaves_the_last_image_of_every_class_to_the_last_slot(seed, classes, each):
    # Shares of concentration 1 never add up to 1 before the last slot, so floor(sum * n) < n.
    labels = np.repeat(np.arange(classes), each)
    order = ptta(labels, np.zeros(len(labels), int), gamma=1.0, slots=4, seed=seed)
    last_images = np.arange(classes) * each + each - 1
    first = np.flatnonzero(np.isin(order, last_images)).min()
    shown = labels[order[first:]]  # part of the last slot: every class, each as one run
    runs = 1 + (np.diff(shown) != 0).sum()
    assert runs == len(np.unique(shown)) == classes


@pytest.mark.parametrize(
    ("classes", "each", "gamma", "distinct", "share"),
    [
        (10, 1000, 0.1, 1.3, 0.94),
        (100, 100, 0.1, 16.4, 0.26),
        (100, 100, 0.01, 4.6, 0.64),
        (1000, 5, 0.1, 62.3, 0.03),
        (1000, 5, 0.01, 38.9, 0.06),
    ],
)
def test_batches_have_the_published_number_of_classes(classes, each, gamma, distinct, share):
    labels = np.repeat(np.arange(classes), each)
    seen, most = [], []
    for seed in range(3):
        order = ptta(labels, np.zeros_like(labels), gamma=gamma, seed=seed)
        for batch in labels[order][: len(labels) // 64 * 64].reshape(-1, 64):
            counts = np.bincount(batch)
            seen.append((counts > 0).sum())
            most.append(counts.max() / 64)
    assert np.mean(seen) == pytest.approx(distinct, rel=0.05)
    assert np.mean(most) == pytest.approx(share, abs=0.03)


def test_about_a_fifth_of_an_imagenet_domain_falls_into_the_last_slot():
    labels = np.repeat(np.arange(1000), 5)
    order = ptta(labels, np.zeros_like(labels), seed=3)
    # The last slot is the longest tail in which no class comes back after another one.
    seen, last, length = set(), None, 0
    for label in labels[order[::-1]].tolist():
        if label != last and label in seen:
            break
        seen.add(label)
        last = label
        length += 1
    assert 0.18 < length / len(labels) < 0.23


def test_labels_that_are_absent_leave_no_hole_unless_the_published_drop_is_asked_for():
    labels = np.repeat([0, 1, 3, 4], 5)  # four distinct labels, 2 is absent
    domains = np.zeros_like(labels)
    assert len(ptta(labels, domains)) == 20
    dropped = ptta(labels, domains, drop_absent=True)
    assert sorted(labels[dropped].tolist()) == [0] * 5 + [1] * 5 + [3] * 5  # labels 0..3 only


def test_the_published_list_loses_sixteen_images():
    absent = [147, 588, 964]
    labels = np.repeat(np.setdiff1d(np.arange(1000), absent), 5)
    labels = np.concatenate([labels, [998] + [0] * 14])  # 5,000 images, 16 of labels 997 to 999
    assert len(labels) == 5000
    assert len(ptta(labels, np.zeros_like(labels), drop_absent=True)) == 4984


def test_the_first_round_of_a_recurring_stream_is_the_ptta_stream_and_others_differ():
    labels, domains = np.tile(np.arange(10), 20), np.repeat([0, 1], 100)
    rounds = recurring(labels, domains, rounds=3, seed=7).reshape(3, -1)
    np.testing.assert_array_equal(rounds[0], ptta(labels, domains, seed=7))
    assert (rounds[0] != rounds[1]).any()
    assert (rounds[1] != rounds[2]).any()


def test_a_domain_is_ordered_the_same_whatever_other_domains_there_are():
    labels = np.tile(np.arange(10), 20)
    domains = np.repeat([0, 3], 100)
    both = ptta(labels, domains, seed=1)
    alone = ptta(labels[100:], domains[100:], seed=1)
    np.testing.assert_array_equal(both[100:] - 100, alone)


def test_other_seeds_give_other_orders():
    labels, domains = np.tile(np.arange(5), 20), np.zeros(100, int)
    for protocol in (ptta, ctta, mixed, interleaved):
        assert (protocol(labels, domains, seed=0) != protocol(labels, domains, seed=1)).any()


def test_a_gradual_stream_climbs_and_falls_inside_each_domain():
    severities = np.tile(np.repeat([1, 2, 3, 4, 5], 10), 2)
    domains = np.repeat([0, 1], 50)
    shown = severities[gradual(np.zeros(100, int), domains, severities)].reshape(2, 50)
    expected = np.repeat([1, 2, 3, 4, 5, 4, 3, 2, 1], [5, 5, 5, 5, 10, 5, 5, 5, 5])
    np.testing.assert_array_equal(shown[0], expected)
    np.testing.assert_array_equal(shown[1], expected)


def test_a_mixed_stream_mixes_domains():
    domains = np.repeat([0, 1], 500)
    shown = domains[mixed(np.zeros(1000, int), domains)]
    assert 200 < shown[:500].sum() < 300


@given(table=tables, cameras=st.integers(1, 9), slots=st.integers(1, 5), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_any_number_of_cameras_shows_every_index_once(table, cameras, slots, seed):
    labels, domains, _ = table
    order = interleaved(labels, domains, 0.1, slots, seed, cameras)
    assert sorted(order.tolist()) == list(range(len(labels)))


def test_cameras_are_in_different_domains_and_go_round():
    labels, domains = np.tile(np.arange(4), 1000), np.repeat(np.arange(4), 1000)
    shown = domains[interleaved(labels, domains, cameras=4)]
    for quarter in shown.reshape(4, 1000):  # a camera's part of a domain: 250, give or take 20
        assert (np.bincount(quarter, minlength=4) > 150).all()


def test_one_camera_is_a_correlated_stream_domain_after_domain():
    labels, domains = np.tile(np.arange(10), 200), np.repeat([0, 1], 1000)
    order = interleaved(labels, domains, cameras=1, seed=3)
    assert (np.diff(domains[order]) >= 0).all()
    # The same kind of order as ptta's, with draws of its own.
    runs = [np.count_nonzero(np.diff(labels[o])) for o in (order, ptta(labels, domains, seed=3))]
    assert runs[0] == pytest.approx(runs[1], rel=0.3)


def test_random_turns_end_together_and_weave_classes():
    labels, domains = np.tile(np.arange(10), 400), np.repeat(np.arange(4), 1000)
    order = interleaved(labels, domains, cameras=4)
    tail = domains[order[-200:]]  # the last domains of cameras 0 to 3 are 3, 0, 1 and 2
    assert (np.bincount(tail, minlength=4) > 25).all()
    stays = np.mean(labels[order][1:] == labels[order][:-1])
    alone = np.mean(labels[ptta(labels, domains)][1:] == labels[ptta(labels, domains)][:-1])
    # A neighbour is of the same camera one time in four, else of a class of its own.
    assert alone > 0.9
    assert stays == pytest.approx(alone / 4 + 3 / 4 / 10, abs=0.1)


def test_a_camera_without_samples_is_left_out():
    assert sorted(interleaved([5, 5], [0, 7], cameras=50).tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ptta([0, 1], [0]), "same length, got 2 labels and 1 domains"),
        (lambda: ptta([], []), "non-empty"),
        (lambda: ptta([[0]], [[0]]), "shape"),
        (lambda: ptta([0.5], [0]), "whole numbers, got float64"),
        (lambda: ptta([-1], [0]), "at least 0, got -1"),
        (lambda: ptta([0], [-2]), "domains must be at least 0, got -2"),
        (lambda: ptta([0], [0], gamma=0), "gamma must be a finite number above 0, got 0"),
        (lambda: ptta([0], [0], gamma=float("nan")), "gamma"),
        (lambda: ptta([0], [0], slots=0), "slots must be a whole number of at least 1, got 0"),
        (lambda: ptta([0], [0], seed=-1), "seed must be a whole number of at least 0, got -1"),
        (lambda: recurring([0], [0], rounds=0), "rounds must be a whole number"),
        (lambda: ptta([0], [0], gamma="a"), "gamma must be a finite number above 0, got 'a'"),
        (lambda: ptta([0], [0], gamma=None), "gamma must be a finite number above 0, got None"),
        (lambda: interleaved([0], [0], gamma=-1), "gamma must be a finite number above 0, got -1"),
        (lambda: interleaved([0], [0], cameras=0), "cameras must be a whole number of at least 1"),
        (lambda: gradual([0], [0], [0]), "severities must be at least 1, got 0"),
        (lambda: gradual([0], [0], [1, 2]), "one entry per label, got 2 for 1"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_recurring_takes_the_arguments_of_ptta_and_then_the_rounds():
    labels, domains = np.arange(60) % 3, np.arange(60) // 30
    twice = recurring(labels, domains, 0.5, 4, 7, 2)
    assert twice[:60].tolist() == ptta(labels, domains, 0.5, 4, 7).tolist()
    assert len(twice) == 120
