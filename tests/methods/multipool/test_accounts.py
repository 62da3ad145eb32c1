"""What is counted for each pool follows what happens to it."""

import numpy as np
import pytest
import torch

from multipool.methods.multipool.accounts import Accounts
from multipool.methods.multipool.events import Event

MORE = np.array([0, 512.0, 0, 0, 0, 512])  # surely of one class


@pytest.fixture
def accounts():
    """Return accounts of three pools and four classes, two of them in use."""
    found = Accounts(3, 4)
    found.add(0, np.array([0, 0, 3]))
    found.add(1, np.array([2, -1]))
    found.updates[:2] = 5, 7
    found.show(0, np.array([1.5, 0, 0.5, 1, 0.7, 2.5]))
    found.show(1, np.array([0, 0, 1.0, 0, 0, 1]))
    return found


def test_images_are_counted_by_class_and_those_without_a_label_only_wait(accounts):
    assert accounts.counts.tolist() == [[2, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert accounts.waiting.tolist() == [3, 2, 0]


def test_merged_pools_are_added_and_the_other_is_closed(accounts):
    accounts.note(Event("merged", 1, 0))
    assert accounts.counts.tolist() == [[0, 0, 0, 0], [2, 0, 1, 1], [0, 0, 0, 0]]
    assert accounts.waiting.tolist() == [0, 5, 0]
    assert accounts.updates.tolist() == [0, 12, 0]
    assert accounts.shown.tolist() == [[0] * 6, [1.5, 0, 1.5, 1, 0.7, 3.5], [0] * 6]


def test_a_new_pool_starts_from_nothing_and_a_split_one_twice_so(accounts):
    accounts.note(Event("created", 1))
    assert accounts.updates.tolist() == [5, 0, 0]
    accounts.updates[2] = 4
    accounts.note(Event("split", 0, 2))
    assert not accounts.counts.any()
    assert not accounts.waiting.any()
    assert not accounts.updates.any()
    assert not accounts.shown.any()


def test_what_a_pool_shows_is_that_of_its_last_images(accounts):
    accounts.show(2, np.array([512.0, 0, 0, 0, 100, 512]))
    assert accounts.with_these(2, MORE).tolist() == [256, 256, 0, 0, 50, 512]
    assert accounts.shown[2].tolist() == [512, 0, 0, 0, 100, 512]  # asked only
    for _ in range(8):
        accounts.show(2, MORE)
    assert accounts.shown[2] == pytest.approx([2, 510, 0, 0, 100 / 256, 512])


def test_how_uneven_a_pool_is_follows_from_what_it_shows(accounts):
    for _ in range(3):
        accounts.show(2, MORE)
    assert accounts.uneven.tolist() == [0, 0, 0.75]  # three images of the others say nothing
    other = Accounts(3, 4)
    other.load_state_dict(accounts.state_dict())
    assert other.uneven.tolist() == [0, 0, 0.75]
    accounts.note(Event("merged", 0, 2))
    assert accounts.uneven[2] == 0
    assert 0.7 < accounts.uneven[0] < 0.75
    accounts.note(Event("created", 0))
    assert not accounts.uneven.any()


def test_gains_are_summed_over_the_same_images_and_follow_their_pool(accounts):
    accounts.show(2, MORE, -30.0)
    assert accounts.gains.tolist() == [0, 0, -30]
    accounts.show(2, MORE, 50.0)
    assert accounts.gains[2] == 10  # of the last 512 images, half of what came before
    accounts.show(2, MORE, np.nan)
    assert accounts.gains[2] == 10
    accounts.show(1, np.zeros(6), 0.5)
    accounts.note(Event("merged", 1, 2))
    assert accounts.gains[1] == pytest.approx(10.5 * 512 / 513)
    assert accounts.gains[2] == 0
    accounts.note(Event("created", 1))
    assert not accounts.gains.any()


def test_answers_that_are_no_numbers_show_nothing(accounts):
    before = accounts.shown.copy()
    accounts.show(0, np.array([1.0, np.nan, 0, 0, 0, 1]))
    assert np.array_equal(accounts.shown, before)


def test_a_state_that_does_not_say_what_pools_show_is_taken(accounts):
    state = accounts.state_dict()
    del state["shown"], state["gains"]
    accounts.load_state_dict(state)
    assert not accounts.shown.any()
    assert not accounts.uneven.any()
    assert accounts.counts.sum() == 4


def test_events_are_counted_by_kind(accounts):
    for event in (Event("created", 2), Event("recalled", 0), Event("recalled", 1)):
        accounts.note(event)
    assert accounts.events.tolist() == [1, 2, 0, 0]  # created, recalled, merged, split
    accounts.note(Event("merged", 0, 1))
    accounts.note(Event("split", 0, 1))
    assert accounts.events.tolist() == [1, 2, 1, 1]


def test_saved_and_loaded(accounts):
    other = Accounts(3, 4)
    other.load_state_dict(accounts.state_dict())
    saved = accounts.state_dict()
    assert all(torch.equal(saved[k], v) for k, v in other.state_dict().items())
    accounts.add(0, np.array([1]))
    accounts.show(0, np.array([1.0, 0, 0, 0, 0, 1]))
    assert saved["counts"].sum() == other.counts.sum() == 4  # both are copies
    assert saved["shown"][:, :4].sum() == other.shown[:, :4].sum() == 4


@pytest.mark.parametrize("name", ["counts", "updates", "waiting", "events"])
@pytest.mark.parametrize("bad", ["missing", "shape", "negative"])
def test_a_bad_state_is_refused_and_changes_nothing(accounts, name, bad):
    before, state = accounts.state_dict(), Accounts(3, 4).state_dict()
    if bad == "missing":
        del state[name]
    elif bad == "shape":
        state[name] = state[name][:1]
    else:
        state[name] -= 1
    with pytest.raises(ValueError, match=f"the pools' state has no sound '{name}'"):
        accounts.load_state_dict(state)
    assert all(torch.equal(before[k], v) for k, v in accounts.state_dict().items())


def test_what_was_said_of_a_pool_is_that_of_its_last_images(accounts):
    accounts.hear(0, np.array([[0.5, 0.5, 0, 0], [1.0, 0, 0, 0]]))
    assert accounts.said[0].tolist() == [1.5, 0.5, 0, 0]
    accounts.hear(0, np.tile([0, 0, 0, 1.0], (8192, 1)))
    assert accounts.said[0].sum() == pytest.approx(4096)
    assert accounts.said[0, 3] > 4095


def test_what_a_broken_model_says_is_not_heard(accounts):
    accounts.hear(0, np.array([[0.5, 0.5, 0, 0]]))
    accounts.hear(0, np.full((3, 4), np.nan))
    assert accounts.said[0].tolist() == [0.5, 0.5, 0, 0]


def test_what_was_said_follows_the_pools(accounts):
    accounts.hear(0, np.array([[0.5, 0.5, 0, 0]]))
    accounts.hear(1, np.array([[0, 0, 1.0, 0]]))
    accounts.note(Event("merged", 1, 0))
    assert accounts.said.tolist() == [[0] * 4, [0.5, 0.5, 1, 0], [0] * 4]
    accounts.note(Event("created", 1))
    assert not accounts.said.any()


def test_of_a_fresh_pool_nothing_was_said_and_less_of_one_that_shows_few_classes(accounts):
    accounts.said[:] = 100.0
    assert accounts.heard({2})[1:].tolist() == [[100] * 4, [0] * 4]
    for _ in range(3):
        accounts.show(1, MORE)
    found = accounts.heard(())
    assert (found[1] < 20).all()
    assert found[0].tolist() == [100] * 4
    assert (accounts.said == 100).all()


def test_accounts_of_before_what_was_said_was_kept_are_taken(accounts):
    state = accounts.state_dict()
    del state["said"]
    accounts.hear(0, np.array([[0.5, 0.5, 0, 0]]))
    accounts.load_state_dict(state)
    assert not accounts.said.any()
