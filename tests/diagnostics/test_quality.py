import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.diagnostics import Reference, memory_quality, occupancy_quality
from multipool.memory import MEMORIES, build


def test_the_three_numbers_by_hand():
    found = occupancy_quality([8, 4, 4, 0])
    assert found.imbalance == 2.0
    assert found.entropy == pytest.approx(0.5 * math.log(2) + 2 * 0.25 * math.log(4))
    assert found.coverage == 0.75


def test_even_occupancy_has_the_highest_entropy():
    found = occupancy_quality([16] * 20)
    assert (found.imbalance, found.coverage) == (1.0, 1.0)
    assert found.entropy == pytest.approx(math.log(20))


def test_one_per_cent_is_not_more_than_one_per_cent():
    assert occupancy_quality([99, 1]).coverage == 0.5
    assert occupancy_quality([98, 2]).coverage == 1.0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(sum))
def test_numbers_stay_in_their_range(counts):
    found = occupancy_quality(counts)
    assert 1 <= found.imbalance <= max(counts)
    assert 0 <= found.entropy <= math.log(len(counts)) + 1e-12
    assert 0 < found.coverage <= 1


def test_samples_are_counted_in_the_mode_they_come_from(modes):
    images, mode = modes(4, 400)
    keep = torch.cat([(mode == m).nonzero()[:n, 0] for m, n in enumerate((12, 6, 3))])
    found = memory_quality(images[keep], images, components=4)
    assert sorted(found.occupancy) == [0, 3, 6, 12]
    assert (found.imbalance, found.coverage) == (4.0, 0.75)


@pytest.mark.parametrize("name", MEMORIES)
def test_every_bank_can_be_measured_and_is_not_changed(name, modes):
    images, mode = modes(3, 90)
    bank = build(name, num_classes=20, capacity=16)
    bank.add(images, uncertainty=torch.zeros(90), labels=mode)
    before = {key: value.clone() for key, value in bank.state_dict().items()}
    found = memory_quality(bank, images, components=3)
    assert sum(found.occupancy) == len(bank)
    assert all(torch.equal(before[key], value) for key, value in bank.state_dict().items())


def test_one_sample_in_memory_has_defined_numbers(modes):
    images, _ = modes(3, 60)
    found = memory_quality(images[:1], images, components=3).as_dict()
    assert found == {"imbalance": 1.0, "entropy": 0.0, "coverage": pytest.approx(1 / 3)}


def test_an_empty_memory_is_a_sentence(modes):
    images, _ = modes(3, 60)
    with pytest.raises(ValueError, match="the memory is empty"):
        memory_quality(build("mcm", num_classes=20), images)
    with pytest.raises(ValueError, match="the memory is empty"):
        memory_quality(images[:0], images)
    for bad in ([], [1.5, 2], [float("nan")], [-1, 2], None, "ab", [[1]]):
        with pytest.raises(ValueError, match="counts of at least 0, got"):
            occupancy_quality(bad)
    assert occupancy_quality(torch.tensor([3, 1])).occupancy == (3, 1)
    for bad in (None, "images", {"images": images}):
        with pytest.raises(ValueError, match=r"a stream must be images .* got"):
            memory_quality(images, bad)


def test_a_constant_stream_has_one_component():
    images = torch.full((30, 3, 8, 8), 0.25)
    found = memory_quality(images[:5], images)
    assert found.occupancy == (5,)
    assert found.as_dict() == {"imbalance": 1.0, "entropy": 0.0, "coverage": 1.0}


def test_a_stream_shorter_than_its_components_gives_fewer(modes):
    images, _ = modes(3, 5)
    assert Reference(images).components == 5


def test_descriptors_of_another_length_are_refused(modes):
    images, _ = modes(3, 30)
    with pytest.raises(ValueError, match="the stream's 6 numbers, got 4"):
        memory_quality(np.zeros((3, 4)), images)
    with pytest.raises(ValueError, match="components must be a whole number of at least 1, got 0"):
        Reference(images, components=0)


def test_the_same_seed_gives_the_same_reference(modes):
    images, _ = modes(8, 300)
    assert memory_quality(images[:40], images) == memory_quality(images[:40], images)
