"""What every bank by name must do, and what sets the single pools apart."""

import math

import pytest
import torch

from multipool.memory import (
    MEMORIES,
    ConfidencePool,
    EntropyPool,
    FifoPool,
    ReservoirPool,
    build,
)
from multipool.testing import MEMORY_CHECKS

POOLS = sorted(set(MEMORIES) - {"mcm", "mcm+"})


def batches(count=4, size=50, classes=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        images = torch.randint(0, 256, (size, 3, 4, 4), generator=generator) / 255
        doubt = torch.rand(size, generator=generator) * math.log(classes)
        yield images, doubt, torch.randint(0, classes, (size,), generator=generator)


@pytest.mark.parametrize("promise", MEMORY_CHECKS)
@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_every_bank_keeps_its_promises(name, promise):
    MEMORY_CHECKS[promise](lambda: build(name, num_classes=10, capacity=16, seed=1))


@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_a_bank_fills_up_to_its_capacity_and_accounts_for_every_sample(name):
    memory = build(name, num_classes=10, capacity=16)
    assert memory.capacity == 16
    for batch in batches():
        memory.add(*batch)
    assert len(memory) == 16
    events = memory.events
    left = events["added"] - events["replaced"] - events["rejected"]
    assert left == 16 or events["merged"] > 0


@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_the_random_state_is_saved_as_bytes(name):
    assert build(name, num_classes=10).state_dict()["random"].dtype == torch.uint8


@pytest.mark.parametrize("name", sorted(MEMORIES))
@pytest.mark.parametrize("key", ["images", "labels", "random", "now"])
def test_a_broken_state_is_a_value_error_and_changes_nothing(name, key):
    memory = build(name, num_classes=10, capacity=16)
    memory.add(*next(batches()))
    before = memory.state_dict()
    for broken in (
        {k: v for k, v in before.items() if k != key},
        {**before, "extra": torch.zeros(1)},
        {**before, key: before[key].float() / 0},
        {**before, key: torch.zeros(0, 7)},
        {**before, key: 3},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            memory.load_state_dict(broken)
        after = memory.state_dict()
        assert all(torch.equal(after[k], before[k]) for k in before)


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_refuses_a_state_that_cannot_be(name):
    pool = build(name, num_classes=10, capacity=16)
    pool.add(*next(batches()))
    state = pool.state_dict()
    index, labels = state["index"], state["labels"]
    for change in (
        {"index": index.flip(0)},
        {"index": index * 0},
        {"index": index + 1000},
        {"labels": labels + 10},
        {"now": state["now"] * 0},
        {"now": torch.tensor(2**63 - 1)},
        {"uncertainty": state["uncertainty"] * math.nan},
    ):
        with pytest.raises(ValueError, match="saved"):
            pool.load_state_dict({**state, **change})
    with pytest.raises(ValueError, match="saved"):
        build(name, num_classes=10, capacity=15).load_state_dict(state)


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_hands_out_everything_whatever_n(name):
    pool = build(name, num_classes=10, capacity=16)
    pool.add(*next(batches()))
    assert len(pool.retrieve(3)) == len(pool.retrieve(0)) == 16
    if name != "fifo":
        assert pool.retrieve().labels.tolist() == sorted(pool.retrieve().labels.tolist())


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(
    "bad",
    [{"num_classes": 1}, {"capacity": 0}, {"storage": "int4"}, {"seed": -1}, {"capacity": 2.5}],
)
def test_a_pool_refuses_bad_options(name, bad):
    with pytest.raises(ValueError, match=r"must be|storage"):
        build(name, **{"num_classes": 10, **bad})


def test_fifo_keeps_the_newest_oldest_first():
    pool = FifoPool(10, capacity=3)
    pool.add(torch.arange(5).view(5, 1, 1, 1) / 255)
    assert (pool.retrieve().images.flatten() * 255).tolist() == [2.0, 3.0, 4.0]
    assert pool.retrieve().ages.tolist() == [3, 2, 1]


def test_the_entropy_pool_takes_everything_and_evicts_from_a_largest_class():
    pool = EntropyPool(10, capacity=6)
    for images, doubt, labels in batches(20, size=1):
        before = pool.retrieve()
        pool.add(images, doubt, labels)
        after = pool.retrieve()
        assert after.ages.min() == 1
        if len(before) == 6:
            gone = before.labels.bincount(minlength=10) - after.labels.bincount(minlength=10)
            gone[labels] += 1
            counts = before.labels.bincount(minlength=10)
            assert gone.sum() == 1
            assert counts[gone.argmax()] == counts.max()


def test_one_class_may_fill_the_entropy_pool():
    pool = EntropyPool(10, capacity=6)
    pool.add(torch.zeros(20, 1, 1, 1), labels=torch.zeros(20, dtype=torch.int64))
    assert len(pool) == 6


def test_the_reservoir_samples_one_class_evenly_over_time():
    kept = torch.zeros(40)
    for seed in range(400):
        pool = ReservoirPool(2, capacity=8, seed=seed)
        pool.add(torch.zeros(40, 1, 1, 1), labels=torch.zeros(40, dtype=torch.int64))
        kept[40 - pool.retrieve().ages] += 1
    # A reservoir keeps each of 40 with probability 8/40; 4 standard deviations of 400 draws.
    assert (kept / 400 - 0.2).abs().max() < 4 * math.sqrt(0.2 * 0.8 / 400)


def test_the_reservoir_stays_balanced_over_predictions():
    pool = ReservoirPool(4, capacity=8)
    labels = torch.tensor([0] * 100 + [1] * 10 + [2] * 10 + [3] * 10)
    pool.add(torch.zeros(130, 1, 1, 1), labels=labels)
    assert pool.retrieve().labels.bincount().tolist() == [2, 2, 2, 2]


def test_the_reservoir_refuses_counts_below_what_it_holds():
    pool = ReservoirPool(4, capacity=8)
    pool.add(torch.zeros(9, 1, 1, 1), labels=torch.zeros(9, dtype=torch.int64))
    state = pool.state_dict()
    with pytest.raises(ValueError, match="predicted"):
        pool.load_state_dict({**state, "predicted": state["predicted"] * 0})
    with pytest.raises(ValueError, match="together the 9 samples seen"):
        pool.load_state_dict({**state, "predicted": state["predicted"] + 2**60})


def test_the_confidence_pool_takes_in_confident_samples_only():
    pool = ConfidencePool(10, capacity=8, threshold=1.0)
    for batch in batches():
        pool.add(*batch)
    batch = pool.retrieve()
    assert len(batch) == 8
    assert batch.uncertainty.max() <= 1.0
    assert batch.labels.bincount().max() == 1
    assert ConfidencePool(10).threshold == pytest.approx(0.4 * math.log(10))
