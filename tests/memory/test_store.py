"""Images: stored exactly, moved once, and in the space they need."""

import pytest
import torch
from memory_streams import drifting, same_state
from torch.utils._python_dispatch import TorchDispatchMode

from multipool.memory import (
    MultiClusterMemory,
)

# No shrinking: streams of random images hardly shrink, and it would take minutes.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("storage", ["uint8", "float"])
def test_stored_images_come_back_bit_for_bit(storage, dtype):
    levels = torch.arange(256, dtype=torch.uint8).view(16, 1, 4, 4)
    images = levels.to(dtype) / 255
    memory = MultiClusterMemory(100, storage=storage)
    memory.add(images)
    back = memory.retrieve(None)
    expected = images[(16 - back.ages)]
    assert back.images.dtype == dtype
    assert torch.equal(back.images, expected)


def test_uint8_images_make_the_same_decisions_as_their_float_copies():
    integers, floats = MultiClusterMemory(100), MultiClusterMemory(100)
    for images, doubt, labels in drifting(4):
        integers.add((images * 255).round().to(torch.uint8), doubt, labels)
        floats.add(images, doubt, labels)
    same_state(integers.state_dict(), floats.state_dict())


def test_rounding_to_eight_bits_loses_at_most_half_a_level():
    images = torch.rand(20, 3, 5, 5)
    memory = MultiClusterMemory(100)
    memory.add(images)
    back = memory.retrieve(None)
    assert (back.images - images[20 - back.ages]).abs().max() <= 0.5 / 255 + 1e-7


class Transfers(TorchDispatchMode):
    """Counts what would make a device wait: reads of single numbers, and copies to the host."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.reads += func is torch.ops.aten._local_scalar_dense.default
        self.reads += func is torch.ops.aten.nonzero.default
        return func(*args, **(kwargs or {}))


def test_one_copy_to_the_host_an_add_and_none_a_retrieve(monkeypatch):
    copies = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: copies.append(1) or cpu(self))
    memory = MultiClusterMemory(100)
    with Transfers() as transfers:
        for number, batch in enumerate(drifting(3), start=1):
            memory.add(*batch)
            memory.retrieve(64)
            assert len(copies) == number
    assert transfers.reads == 0


class Calls(TorchDispatchMode):
    """Notes what torch is asked to do."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket)
        return func(*args, **(kwargs or {}))


def test_torch_indexes_no_images_on_a_cpu():
    # Its parallel loops wait for threads; a batch of which few are kept takes another way.
    memory = MultiClusterMemory(100, 4, 1)
    with Calls() as calls:
        for batch in drifting(3):
            memory.add(*batch)
            memory.retrieve(64)
    assert torch.ops.aten.zeros in calls.names  # the buffer: it does note calls
    assert not calls.names & {torch.ops.aten.index_select, torch.ops.aten.index}


@pytest.mark.parametrize("storage", ["uint8", "float"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_the_way_of_an_accelerator_leads_to_the_same_state(monkeypatch, storage, dtype):
    host, device = (MultiClusterMemory(100, 8, 3, 0.2, storage=storage) for _ in range(2))
    for images, doubt, labels in drifting(4, size=20):
        images = (images * 255).to(dtype) if dtype == torch.uint8 else images.to(dtype)
        host.add(images, doubt, labels)
        with monkeypatch.context() as elsewhere:
            for name in ("arrivals", "descriptors", "store"):
                elsewhere.setattr(f"multipool.memory.{name}.on_host", lambda images: False)
            device.add(images, doubt, labels)
            drawn = device.retrieve(9)
        expected = host.retrieve(9)
        assert torch.equal(drawn.images, expected.images)
        assert drawn.images.dtype == expected.images.dtype
    same_state(host.state_dict(), device.state_dict())


@pytest.mark.parametrize(("storage", "bytes_a_number"), [("uint8", 1), ("float", 4)])
def test_it_takes_all_its_images_and_little_more(storage, bytes_a_number):
    memory = MultiClusterMemory(100, storage=storage)
    for batch in drifting(30):
        memory.add(*batch)
    assert len(memory.clusters) == 5
    image = 3 * 6 * 6 * bytes_a_number
    assert len(memory) * image <= memory._store.nbytes <= 5 * 64 * image
    assert memory.nbytes - memory._store.nbytes <= 128 * 5 * 64


def test_a_bank_of_few_images_takes_little_until_more_come():
    memory = MultiClusterMemory(100)
    sizes = []
    for batch in drifting(30):
        memory.add(*batch)
        sizes.append(memory._store.nbytes)
    assert sizes[0] < sizes[-1] / 2
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 5 * 64 * 3 * 6 * 6
    again = MultiClusterMemory(100)
    again.load_state_dict(memory.state_dict())
    same_state(again.state_dict(), memory.state_dict())


def test_the_cost_on_the_host_does_not_grow_with_the_stream():
    memory = MultiClusterMemory(100, capacity=16)
    for batch in drifting(30):
        memory.add(*batch)
    before = memory.nbytes
    for batch in drifting(30, seed=1):
        memory.add(*batch)
    assert memory.nbytes == before
