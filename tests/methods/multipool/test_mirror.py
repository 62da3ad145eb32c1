"""What a second look in a mirror finds and is allowed: by hand, by what must always hold."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.methods.multipool.mirror import Looked, Mirror, doubtful, joined

EVERY = torch.ones(4, dtype=torch.bool)


def logits_of(*probabilities):
    return torch.tensor(probabilities).log()


def found(left, said, spent=0):
    return Looked(np.array([left, said], dtype=np.float64), spent)


# Which images are looked at again --------------------------------------------------------------


def test_the_least_margins_come_first_and_sure_answers_never():
    logits = logits_of([0.5, 0.4, 0.1], [0.9, 0.05, 0.05], [0.4, 0.35, 0.25], [0.7, 0.15, 0.15])
    assert doubtful(logits, 4, EVERY).tolist() == [2, 0]  # margins 0.1, 0.85, 0.05, 0.55
    assert doubtful(logits, 1, EVERY).tolist() == [2]
    assert doubtful(logits, 4, torch.tensor([True, True, False, True])).tolist() == [0]


def test_where_a_number_of_rows_is_recorded_it_is_always_the_same():
    logits = logits_of([0.5, 0.4, 0.1], [0.9, 0.05, 0.05], [0.4, 0.35, 0.25], [0.7, 0.15, 0.15])
    rows = doubtful(logits, 3, EVERY, always=True)
    assert rows.tolist() == [2, 0, 3]
    again = logits_of([0.1, 0.8, 0.1]).expand(3, 3)
    both, _ = joined(logits[rows], again, EVERY[:3], EVERY[:3])
    assert torch.equal(both[2], logits[3])  # not in doubt, and left alone
    assert not torch.equal(both[:2], logits[rows[:2]])


def test_answers_that_are_no_numbers_are_not_looked_at():
    logits = torch.tensor([[torch.nan, 0.0], [0.1, 0.0]])
    assert doubtful(logits, 2, EVERY[:2]).tolist() == [1]


# What becomes of both looks --------------------------------------------------------------------


def test_two_looks_are_averaged_where_there_is_doubt_and_the_mirror_agrees():
    first = logits_of([0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.9, 0.05, 0.05], [0.5, 0.4, 0.1])
    again = logits_of([0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1])
    asked = torch.tensor([True, True, True, False])
    both, agreed = joined(first, again, asked, torch.tensor([True, False, True]))
    torch.testing.assert_close(both[0], (first[0] + again[0]) / 2)
    assert both[0].argmax() == 1  # the mirror was surer
    assert torch.equal(both[1:], first[1:])  # class 1 does not agree, 2 is sure, 3 was not asked
    torch.testing.assert_close(agreed, torch.tensor([[0.1, 0.1, 0.0], [0.5, 0.5, 0.0]]))


def test_an_answer_is_not_changed_by_a_mirror_that_says_the_same():
    first = logits_of([0.5, 0.4, 0.1])
    both, agreed = joined(first, first.clone(), EVERY[:1], EVERY[:3])
    torch.testing.assert_close(both, first)
    torch.testing.assert_close(agreed[0], agreed[1])


# What is known about the mirror ----------------------------------------------------------------


def test_nothing_agrees_before_anything_is_known():
    mirror = Mirror(3)
    assert not mirror.is_known
    assert not mirror.agrees().any()
    mirror.add(found([7.9, 0, 0], [7.9, 0, 0]), 64, 0.25)
    assert not mirror.agrees().any()
    mirror.add(found([0.5, 0, 0], [0.5, 0, 0]), 64, 0.25)
    assert mirror.agrees().all()  # classes never seen stand as all do


def test_classes_that_a_mirror_turns_into_others_are_told_from_the_rest():
    mirror = Mirror(3)
    mirror.add(found([18, 2, 0], [20, 10, 0]), 64, 0.25)  # all classes: 2/3
    assert mirror.agrees().tolist() == [True, False, True]
    # (2 + 4 * 20/30) / (10 + 4) is 0.33 of what it was; with 18 of 20, (18 + 2.7) / 24 is 0.86


def test_a_model_whose_classes_a_mirror_changes_is_asked_again_after_a_while():
    mirror = Mirror(2)
    mirror.add(found([4, 4], [10, 10]), 64, 0.25)
    assert mirror.is_known
    assert not mirror.agrees().any()
    for _ in range(100):
        mirror.add(found([0, 0], [0, 0]), 64, 0.25)
    assert not mirror.is_known


def test_numbers_of_a_broken_model_are_not_taken_in():
    mirror = Mirror(2)
    mirror.add(found([9, 9], [10, 10]), 64, 0.25)
    mirror.add(found([np.nan, 1], [1, 1]), 64, 0.25)
    assert np.isfinite(mirror.agreed).all()


@given(st.lists(st.tuples(st.integers(1, 70), st.booleans()), max_size=60))
def test_no_more_is_spent_than_the_share_of_the_stream_and_what_may_be_saved(batches):
    mirror, images, spent = Mirror(2), 0, 0
    for size, doubts in batches:
        most = mirror.looks(size, 0.25)
        assert 0 <= most <= size
        looked = most if doubts else 0
        mirror.add(found([0, 0], [0, 0], looked), size, 0.25)
        images, spent = images + size, spent + looked
        assert spent <= 0.25 * images + 4
        assert 0 <= mirror.credit[0] <= 4


def test_every_fourth_single_image_may_be_looked_at_again():
    mirror, looks = Mirror(2), []
    for _ in range(12):
        looks.append(mirror.looks(1, 0.25))
        mirror.add(found([0, 0], [0, 0], looks[-1]), 1, 0.25)
    assert looks == [0, 0, 0, 1] * 3


@pytest.mark.parametrize(
    "change", [{"agreed": torch.full((2, 3), -1.0)}, {"credit": torch.tensor([99.0])}]
)
def test_an_unsound_state_is_refused_and_changes_nothing(change):
    mirror = Mirror(3)
    mirror.add(found([9, 9, 9], [9, 9, 9]), 64, 0.25)
    before = mirror.state_dict()
    with pytest.raises(ValueError, match="mirror's state"):
        mirror.load_state_dict({**before, **change})
    assert all(torch.equal(a, before[name]) for name, a in mirror.state_dict().items())


def test_a_state_saved_before_there_was_a_mirror_begins_anew():
    mirror = Mirror(3)
    mirror.add(found([9, 9, 9], [9, 9, 9], 1), 64, 0.25)
    mirror.load_state_dict({})
    assert not mirror.is_known
    assert mirror.credit[0] == 0
