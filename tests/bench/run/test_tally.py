from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.bench.run.tally import Tally


def logits_of(predictions, classes=4):
    return torch.nn.functional.one_hot(torch.as_tensor(predictions), classes).float()


@given(
    samples=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=60
    ),
    batch=st.integers(1, 9),
    stretch=st.integers(1, 20),
)
def test_errors_are_those_of_counting_one_by_one(samples, batch, stretch):
    labels, predictions, groups = (np.array(column) for column in zip(*samples, strict=True))
    tally = Tally(labels, groups, 3, stretch)
    for start in range(0, len(labels), batch):
        tally.add(logits_of(predictions[start : start + batch]))
    wrong = labels != predictions
    for group, error in enumerate(tally.group_errors()):
        here = wrong[groups == group]
        assert np.isnan(error) if len(here) == 0 else error == pytest.approx(100 * here.mean())
    parts = [wrong[i : i + stretch].mean() * 100 for i in range(0, len(wrong), stretch)]
    assert tally.curve() == pytest.approx(parts)
    assert tally.error() == pytest.approx(100 * wrong.mean())


def test_nothing_seen_has_no_error():
    tally = Tally(np.zeros(3, np.int64), np.zeros(3, np.int64), 1, 2)
    assert tally.error() is None
    assert len(tally.curve()) == 0
    assert np.isnan(tally.group_errors()).all()


def test_counts_continue_from_a_saved_state():
    labels, groups = np.arange(6) % 4, np.array([0, 0, 0, 1, 1, 1])
    first, second = (Tally(labels, groups, 2, 4) for _ in range(2))
    first.add(logits_of([0, 0, 2]))
    second.load_state_dict(first.state_dict())
    for tally in (first, second):
        tally.add(logits_of([3, 1, 1]))
    assert second.group_errors().tolist() == first.group_errors().tolist()
    assert second.seen == 6


def test_counts_of_another_stream_are_refused():
    small = Tally(np.zeros(3, np.int64), np.zeros(3, np.int64), 1, 2)
    large = Tally(np.zeros(9, np.int64), np.zeros(9, np.int64), 1, 2)
    with pytest.raises(ValueError, match="another stream"):
        small.load_state_dict(large.state_dict())
