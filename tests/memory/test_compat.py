import numpy as np
import pytest
import torch

from multipool.memory import MEMORIES, LegacyBank, MultiClusterMemory, build

IMAGE = torch.full((3, 4, 4), 0.5)


@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_any_bank_speaks_the_published_interface(name):
    bank = LegacyBank(build(name, num_classes=10, capacity=8))
    images = torch.rand(20, 3, 4, 4)
    for number, image in enumerate(images):
        if number % 2:
            bank.add_instance((image, number % 10, 0.1))
        else:
            bank.add_instance((image, number % 10, 0.1, torch.tensor(3)))
    stored, ages = bank.get_memory()
    assert isinstance(stored, list)
    assert isinstance(ages, list)
    assert torch.stack(stored).shape == (bank.get_occupancy(), 3, 4, 4)
    assert len(ages) == bank.get_occupancy() == 8
    for image, age in zip(stored, ages, strict=True):
        assert (image - images[20 - round(age * 8)]).abs().max() <= 0.5 / 255 + 1e-6


def test_one_by_one_is_the_same_as_a_batch():
    memory, bank = MultiClusterMemory(100), LegacyBank(MultiClusterMemory(100))
    images, doubt, labels = torch.rand(90, 3, 4, 4), torch.rand(90), torch.arange(90)
    memory.add(images, doubt, labels)
    for image, label, u in zip(images, labels, doubt, strict=True):
        bank.add_instance((image, label.item(), u.item()))
    batch = memory.retrieve(64)
    stored, ages = bank.get_memory()
    assert torch.equal(batch.images, torch.stack(stored))
    assert (batch.ages / 64).tolist() == ages


def test_a_wrong_instance_is_a_value_error():
    bank = LegacyBank(MultiClusterMemory(100))
    with pytest.raises(ValueError, match="instance must be"):
        bank.add_instance((torch.zeros(3, 4, 4), 1))
    with pytest.raises(ValueError, match=r"image must be a torch\.Tensor"):
        bank.add_instance(("empty", 1, 0.0))


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        (3, "an instance must be .* got int"),
        ((IMAGE[None], 1, 0.5), r"image must be a torch.Tensor \(C, H, W\), got \(1, 3, 4, 4\)"),
        ((IMAGE, 1.5, 0.5), "label must be a whole number, got 1.5"),
        ((IMAGE, None, 0.5), "label must be a whole number, got None"),
        ((IMAGE, 2**70, 0.5), "label must be a whole number"),
        ((IMAGE, 1, "a"), "uncertainty must be a number, got a"),
        ((IMAGE, 1, None), "uncertainty must be a number, got None"),
    ],
)
def test_what_is_no_instance_is_a_sentence_and_not_stored(instance, message):
    bank = LegacyBank(MultiClusterMemory(100))
    with pytest.raises(ValueError, match=message):
        bank.add_instance(instance)
    assert bank.get_occupancy() == 0


def test_numbers_may_come_as_tensors_and_arrays_and_a_bank_must_be_one():
    bank = LegacyBank(MultiClusterMemory(100))
    bank.add_instance((IMAGE, torch.tensor(7), torch.tensor([0.1], dtype=torch.float64)))
    bank.add_instance((IMAGE, np.int32(8), np.float64(0.2)))
    stored = bank.memory.retrieve(None)
    assert (stored.labels.tolist(), stored.uncertainty.tolist()) == ([7, 8], [0.1, 0.2])
    with pytest.raises(ValueError, match="needs a bank with add and retrieve, got int"):
        LegacyBank(3)
