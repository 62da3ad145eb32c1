"""Who makes room: the terms of H(x), and the member with the highest on long streams."""

import numpy as np
import pytest
import torch

from multipool.memory import MultiClusterMemory
from multipool.memory.replacements import always, highest, if_worse, timeliness
from multipool.memory.switch import by_numpy


def test_the_highest_score_is_the_older_of_equals():
    assert highest(np.array([3.0, 3.0, 1.0]), np.array([9, 5, 2, 0]), np.array([1, 2, 3])) == 1


def test_replacing_if_worse_is_strict():
    assert always(0.0, 1.0)
    assert if_worse(1.1, 1.0)
    assert not if_worse(1.0, 1.0)


def test_timeliness_is_a_logistic_curve_that_ends_at_its_weight():
    terms = timeliness(np.array([0, 4, 8, 10**9]), 4, 2.0)
    assert terms[0] == 1.0
    assert np.allclose(terms[1:3], [2 / (1 + np.exp(-1.0)), 2 / (1 + np.exp(-2.0))])
    assert terms[-1] == 2.0


def drift(seed, count, spread=0.05):
    """Images whose colour drifts slowly, so that one cluster's centroid keeps moving."""
    generator = torch.Generator().manual_seed(seed)
    colour = 0.5 + 0.3 * torch.sin(torch.arange(count) / 150).view(-1, 1, 1, 1)
    noise = spread * torch.randn(count, 2, 1, 1, generator=generator)
    return (colour + noise).clamp(0, 1), torch.rand(count, generator=generator).double()


@pytest.mark.parametrize("replacement", ["always", "if_worse"])
@pytest.mark.parametrize("spread", [0.05, 0.0])
def test_a_long_stream_equals_the_definition(naive, replacement, spread):
    with by_numpy():
        memory = MultiClusterMemory(10, 40, 2, 0.9, replacement=replacement, storage="float")
    reference = naive(10, 40, 2, 0.9, replacement=replacement)
    images, doubt = drift(3, 900, spread)
    for start in range(0, 900, 100):
        part = slice(start, start + 100)
        batch = images[part], doubt[part], torch.zeros(100, dtype=torch.int64)
        memory.add(*batch)
        reference.add(*batch)
    assert memory.events == reference.events
    assert memory.events["replaced"] > 100
    found = sorted(900 - memory.retrieve(None).ages)
    assert found == sorted(m["index"] for c in reference.clusters for m in c["members"])


def test_equal_members_are_told_apart_by_age_alone():
    memory = MultiClusterMemory(10, 4, 1, age_weight=0.0)
    memory.add(torch.full((11, 1, 2, 2), 0.3))
    assert memory.retrieve(None).ages.tolist() == [4, 3, 2, 1]  # the oldest goes, again and again


@pytest.mark.filterwarnings("ignore:overflow")
def test_numbers_beyond_reason_are_weighed_exactly(naive):
    options = {"descriptor": "feature", "distance": "l2"}
    memory = MultiClusterMemory(6, 3, 1, 1.0, storage="float", **options)
    reference = naive(6, 3, 1, 1.0, **options)
    images, labels = torch.zeros(9, 1, 1, 1), torch.zeros(9, dtype=torch.int64)
    features = torch.arange(9).view(9, 1).double() % 4 * 1e160  # its square is infinite
    memory.add(images, torch.zeros(9), labels, features)
    reference.add(images, torch.zeros(9), labels, features)
    assert memory.retrieve(None).ages.tolist() == [
        9 - m["index"] for m in reference.clusters[0]["members"]
    ]
