"""A multi-cluster memory's saved state: complete, movable, and refused when it cannot be."""

import math

import pytest
import torch

from multipool.core import read_tensors, write_tensors
from multipool.memory import DISTANCES, MultiClusterMemory


def filled(**options):
    memory = MultiClusterMemory(100, 8, 3, 0.2, **options)
    generator = torch.Generator().manual_seed(0)
    for size in (30, 1, 20):
        colours = torch.rand(size, 3, 1, 1, generator=generator)
        images = (colours.expand(-1, -1, 4, 4) * 255).round() / 255
        labels = torch.randint(0, 100, (size,), generator=generator)
        memory.add(images, torch.rand(size, generator=generator), labels)
    return memory


@pytest.mark.parametrize("distance", sorted(DISTANCES))
@pytest.mark.parametrize("age_unit", ["sample", "step"])
@pytest.mark.parametrize("storage", ["uint8", "float"])
def test_a_file_brings_it_back_as_it_was(tmp_path, distance, age_unit, storage):
    options = {"distance": distance, "age_unit": age_unit, "storage": storage}
    memory = filled(**options)
    write_tensors(tmp_path / "memory.safetensors", memory.state_dict())
    state, _ = read_tensors(tmp_path / "memory.safetensors")
    other = MultiClusterMemory(100, 8, 3, 0.2, seed=7, **options)
    other.load_state_dict(state)
    for _ in range(3):
        images = torch.rand(25, 3, 4, 4)
        memory.add(images)
        other.add(images)
        assert torch.equal(memory.retrieve(9).images, other.retrieve(9).images)
    ours, theirs = memory.state_dict(), other.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_state_is_a_copy():
    memory = filled(storage="float")
    state = memory.state_dict()
    before = {name: value.clone() for name, value in state.items()}
    memory.add(torch.zeros(30, 3, 4, 4))
    assert all(torch.equal(state[name], before[name]) for name in state)
    memory.load_state_dict(state)
    state["images"].zero_()
    assert torch.equal(memory.retrieve(None).images, before["images"])


def broken(state):
    """Yield states in which one number is wrong, each with what is wrong about it."""
    yield "sizes", {"sizes": state["sizes"] + 1}
    yield "a cluster too many", {"sizes": torch.tensor([1, 1, 1, int(state["sizes"].sum()) - 3])}
    yield "an empty cluster", {"sizes": state["sizes"] * 0}
    yield "a row too few", {"labels": state["labels"][1:]}
    yield "a cluster's time missing", {"created": state["created"][1:]}
    yield "label", {"labels": state["labels"] + 100}
    yield "off the grid", {"descriptors": state["descriptors"] + 2.0**-30}
    yield "not finite", {"descriptors": state["descriptors"] * math.inf}
    yield "uncertainty", {"uncertainty": state["uncertainty"] * math.nan}
    yield "not unique", {"serial": state["serial"] * 0}
    yield "the future", {"serial": state["serial"] + 1000}
    yield "order", {"serial": state["serial"].flip(0), "index": state["index"].flip(0)}
    yield "index", {"index": state["index"] - 1}
    yield "now", {"now": state["now"] + 1}
    yield "beyond all bounds", dict.fromkeys(("now", "next_serial"), torch.tensor(2**63 - 1))
    yield "creation", {"created": state["created"].flip(0)}
    yield "use", {"last_used": state["last_used"] * 0}
    yield "image type", {"images": state["images"].float()}
    yield "image count", {"images": state["images"][1:]}
    yield "dtype", {"dtype": torch.zeros((), dtype=torch.int32)}
    yield "random", {"random": torch.zeros(3, dtype=torch.uint8)}
    yield "kind", {"labels": state["labels"].double()}


@pytest.mark.parametrize("what", [what for what, _ in broken(filled().state_dict())])
def test_a_state_that_cannot_be_is_refused_and_changes_nothing(what):
    memory = filled()
    state = memory.state_dict()
    change = dict(broken(state))[what]
    with pytest.raises(ValueError, match="saved"):
        memory.load_state_dict({**state, **change})
    after = memory.state_dict()
    assert all(torch.equal(after[name], state[name]) for name in state)


def test_float_images_out_of_range_are_refused():
    memory = filled(storage="float")
    state = memory.state_dict()
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        memory.load_state_dict({**state, "images": state["images"] + 1})


def test_a_covariance_of_another_stream_is_refused():
    memory = filled(distance="mahalanobis")
    state = memory.state_dict()
    for change in (
        {"seen_count": state["seen_count"] - 1},
        {"seen_total": state["seen_total"][1:]},
    ):
        with pytest.raises(ValueError, match="covariance"):
            memory.load_state_dict({**state, **change})
    with pytest.raises(ValueError, match="unexpected"):
        filled().load_state_dict(state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_state_moves_between_devices():
    memory, there = filled(), MultiClusterMemory(100, 8, 3, 0.2)
    there.load_state_dict(memory.state_dict())
    images = torch.rand(20, 3, 4, 4)
    memory.add(images)
    there.add(images.cuda())
    batch = there.retrieve(None)
    assert batch.images.is_cuda
    assert torch.equal(batch.images.cpu(), memory.retrieve(None).images)
