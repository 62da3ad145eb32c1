"""The promises of the multi-cluster memory: draws, options, seeds, copies."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_streams import drifting, same_state

from multipool.memory import (
    RETRIEVALS,
    MultiClusterMemory,
)

# No shrinking: streams of random images hardly shrink, and it would take minutes.


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(0, 90),
    fill=st.booleans(),
    retrieval=st.sampled_from(sorted(RETRIEVALS)),
    seed=st.integers(0, 99),
)
def test_retrieval_gives_its_shares_without_repeats(n, fill, retrieval, seed):
    memory = MultiClusterMemory(
        100, 16, threshold=0.2, fill=fill, retrieval=retrieval, seed=seed, storage="float"
    )
    for batch in drifting(2, seed=seed):
        memory.add(*batch)
    sizes, batch = memory.clusters.sizes, memory.retrieve(n)
    assert len(batch.ages.unique()) == len(batch)
    if fill or retrieval == "proportional":
        assert len(batch) == min(n, len(memory))
    given_by = batch.clusters.bincount(minlength=len(sizes))
    if retrieval == "uniform":
        share = torch.clamp(sizes, max=n // len(sizes))
        assert (given_by >= share).all() if fill else (given_by == share).all()
    everything = memory.retrieve(None)
    rows = [everything.ages.tolist().index(age) for age in batch.ages.tolist()]
    for name in ("images", "uncertainty", "labels", "clusters"):
        assert torch.equal(getattr(batch, name), getattr(everything, name)[rows])


def test_every_sample_of_a_cluster_is_drawn_equally_often():
    memory = MultiClusterMemory(100, 8, threshold=0.2, fill=False)
    memory.add(torch.tensor([0.0] * 8 + [1.0] * 4).view(12, 1, 1, 1))
    drawn = torch.cat([memory.retrieve(4).ages for _ in range(2000)]).bincount(minlength=13)
    # 2 of 8 old ones (ages 5 to 12) and 2 of 4 new ones, 2000 times.
    assert torch.allclose(drawn[5:] / 2000, torch.tensor(0.25), atol=0.05)
    assert torch.allclose(drawn[1:5] / 2000, torch.tensor(0.5), atol=0.05)


def test_an_empty_memory_hands_out_an_empty_batch():
    memory = MultiClusterMemory(100)
    for n in (None, 0, 64):
        batch = memory.retrieve(n)
        assert len(batch) == 0
        assert batch.images.shape == (0, 0, 0, 0)
        assert batch.images.is_floating_point()
    assert len(memory) == 0
    assert len(memory.clusters) == 0


def test_fewer_than_one_each_gives_an_empty_batch_without_fill():
    memory = MultiClusterMemory(100, fill=False)
    memory.add(torch.tensor([0.0, 0.5, 1.0]).view(3, 1, 1, 1))
    assert len(memory.clusters) == 3
    assert len(memory.retrieve(2)) == 0
    assert memory.retrieve(2).images.shape == (0, 1, 1, 1)
    assert len(memory.retrieve(3)) == 3


def test_one_cluster_takes_everything_whatever_the_threshold(naive):
    memory = MultiClusterMemory(10, 4, threshold=0.0)
    assert memory.options.clusters == 1
    for batch in drifting(2, size=9):
        memory.add(batch[0], batch[1], batch[2] % 10)
    assert memory.clusters.sizes.tolist() == [4]


@pytest.mark.parametrize(
    ("classes", "clusters"), [(2, 1), (10, 1), (39, 1), (40, 2), (100, 5), (1000, 5)]
)
def test_the_number_of_clusters_follows_the_paper(classes, clusters):
    assert MultiClusterMemory(classes).options.clusters == clusters


def test_ages_can_count_calls():
    memory = MultiClusterMemory(10, age_unit="step")
    memory.add(torch.zeros(3, 1, 2, 2))
    memory.add(torch.zeros(2, 1, 2, 2))
    assert memory.retrieve(None).ages.tolist() == [2, 2, 2, 1, 1]
    assert memory.clusters.last_used.tolist() == [1]


def test_the_worst_of_a_label_makes_room_for_one_of_it():
    memory = MultiClusterMemory(100, class_quota=2, age_weight=0.0, distance_weight=0.0)
    doubt, labels = torch.tensor([3.0, 1.0, 2.0, 0.5]), torch.tensor([1, 0, 0, 0])
    memory.add(torch.zeros(4, 1, 2, 2), doubt, labels)
    assert memory.retrieve(None).uncertainty.tolist() == [3.0, 1.0, 0.5]


def test_equal_seeds_draw_alike_and_others_do_not():
    memories = [MultiClusterMemory(100, seed=seed) for seed in (5, 5, 6)]
    for batch in drifting(3):
        for memory in memories:
            memory.add(*batch)
    first, second, third = (memory.retrieve(32).ages.tolist() for memory in memories)
    assert first == second
    assert first != third


def test_the_global_generators_are_neither_read_nor_moved():
    torch.manual_seed(0)
    np.random.seed(0)
    expected = torch.rand(3), np.random.rand()
    torch.manual_seed(0)
    np.random.seed(0)
    memory = MultiClusterMemory(100)
    for batch in drifting(2):
        memory.add(*batch)
        memory.retrieve(16)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.random.rand() == expected[1]


def test_a_deep_copy_goes_on_identically_and_alone():
    memory, batches = MultiClusterMemory(100, 8, 3), list(drifting(6, size=20))
    for batch in batches[:3]:
        memory.add(*batch)
    copied, before = copy.deepcopy(memory), memory.state_dict()
    for batch in batches[3:]:
        copied.add(*batch)
    same_state(memory.state_dict(), before)
    for batch in batches[3:]:
        memory.add(*batch)
    same_state(memory.state_dict(), copied.state_dict())
    assert torch.equal(memory.retrieve(8).images, copied.retrieve(8).images)


def test_clear_starts_again_from_the_beginning():
    memory, fresh = MultiClusterMemory(100), MultiClusterMemory(100)
    for batch in drifting(3):
        memory.add(*batch)
    memory.retrieve(8)
    memory.clear()
    assert len(memory) == 0
    for batch in drifting(2, seed=9, side=4):  # another shape is welcome now
        memory.add(*batch)
        fresh.add(*batch)
    assert memory.retrieve(40).ages.tolist() == fresh.retrieve(40).ages.tolist()
    same_state(memory.state_dict(), fresh.state_dict())


def test_it_works_in_and_out_of_inference_mode_and_holds_no_graph():
    memory = MultiClusterMemory(100, storage="float")
    batches = list(drifting(4))
    with torch.inference_mode():
        memory.add(*batches[0])
        inside = memory.retrieve(8)
    memory.add(batches[1][0].requires_grad_(), batches[1][1].requires_grad_(), batches[1][2])
    with torch.inference_mode():
        memory.add(*(part * 1 for part in batches[2]))
    memory.add(*batches[3])
    weight = torch.ones((), requires_grad=True)
    for batch in (inside, memory.retrieve(8)):
        assert not batch.images.requires_grad
        assert not batch.images.is_inference()
        (weight * batch.images).sum().backward()
    assert all(not value.requires_grad for value in memory.state_dict().values())


def test_retrieved_images_are_copies():
    memory = MultiClusterMemory(100, storage="float")
    memory.add(torch.full((4, 1, 2, 2), 0.5))
    memory.retrieve(None).images.zero_()
    assert torch.equal(memory.retrieve(None).images, torch.full((4, 1, 2, 2), 0.5))
