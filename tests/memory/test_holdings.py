"""Where samples are: slots, clusters, and the view that strategies get."""

import numpy as np
import pytest
import torch

from multipool.memory import MultiClusterMemory
from multipool.memory.holdings import Holdings, Sample


def sample(serial, value=0.5, label=3):
    return Sample(np.array([value, 1.0]), 0.1 * serial, label, 0, serial, serial)


def filled():
    """Two clusters of 2 and 1 in a memory of 3 x 2."""
    held = Holdings(3, 2, 2)
    for serial, cluster in enumerate((held.open(0), 0, held.open(2))):
        held.append(cluster, sample(serial, value=serial), held.free()[-1])
    return held


def test_members_are_listed_by_cluster_and_arrival():
    held = filled()
    held.members[0, :2] = held.members[0, 1::-1].copy()  # in any order
    slots, owner = held.listed()
    assert held.serials[slots].tolist() == [0, 1, 2]
    assert owner.tolist() == [0, 0, 1]
    assert sorted(held.free() + slots.tolist()) == list(range(6))


def test_a_merge_keeps_the_earlier_place_and_the_times_of_both():
    held = filled()
    held.append(held.open(7), sample(7, value=9.0), held.free()[-1])
    held.last_used[1] = 5
    held.merge(0, 1, held.slots_of(1).copy())
    assert held.sizes[:2].tolist() == [1, 1]
    assert held.created[:2].tolist() == [0, 7]
    assert held.last_used[:2].tolist() == [5, 7]
    assert held.centroids().tolist() == [[2.0, 1.0], [9.0, 1.0]]
    assert len(held) == 2


def test_a_strategy_sees_members_and_can_change_none():
    memory = MultiClusterMemory(100, 8, 3)
    images = torch.tensor([0.0, 1.0, 0.0]).view(3, 1, 1, 1).expand(3, 3, 2, 2)
    memory.add(images, torch.tensor([0.5, 0.25, 1.0]), torch.tensor([4, -1, 9]))
    view = memory._organiser.view()
    assert view.members.ages.tolist() == [3, 1, 2]
    assert view.members.uncertainty.tolist() == [0.5, 1.0, 0.25]
    assert view.members.labels.tolist() == [4, 9, -1]
    assert view.members.owner.tolist() == [0, 0, 1]
    assert view.of(1).labels.tolist() == [-1]
    for array in (*vars(view.members).values(), view.sizes, view.centroids, view.last_used):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
