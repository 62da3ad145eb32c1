"""RoTTA's pool against the published rules, written out one by one."""

import math
from contextlib import nullcontext

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from multipool.memory import ClassBalancedPool
from multipool.memory.switch import by_numpy


class PublishedRules:
    """Ages that grow by one a sample, lists a class, scores computed anew: CSTU as described."""

    def __init__(self, classes, capacity, age_weight=1.0, uncertainty_weight=1.0):
        self.classes, self.capacity = classes, capacity
        self.weights = age_weight, uncertainty_weight
        self.lists = {c: [] for c in range(-1, classes)}

    def score(self, age, u):
        timely, sure = self.weights
        return timely / (1 + math.exp(-age / self.capacity)) + sure * u / math.log(self.classes)

    def insert(self, name, c, u):
        accept = True
        most = max(len(items) for items in self.lists.values())
        if len(self.lists[c]) >= self.capacity / self.classes:
            candidates = [c]
        elif sum(map(len, self.lists.values())) < self.capacity:
            candidates = []
        else:
            candidates = [k for k in self.lists if len(self.lists[k]) == most]
        rivals = [(k, i) for k in candidates for i in range(len(self.lists[k]))]
        if rivals:
            scores = [self.score(self.lists[k][i][1], self.lists[k][i][2]) for k, i in rivals]
            last_worst = max(range(len(rivals)), key=lambda r: (scores[r], r))
            accept = scores[last_worst] > self.score(0, u)
            if accept:
                k, i = rivals[last_worst]
                self.lists[k].pop(i)
        if accept:
            self.lists[c].append([name, 0, u])
        for items in self.lists.values():
            for item in items:
                item[1] += 1

    def read(self):
        return [item for c in sorted(self.lists) for item in self.lists[c]]


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    classes=st.sampled_from([2, 5, 10, 100]),
    capacity=st.integers(1, 20),
    weights=st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([0.0, 1.0])),
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=4),
    levels=st.sampled_from([2, 50]),
    lowest=st.sampled_from([-1, 0]),
    seed=st.integers(0, 10**6),
    way=st.sampled_from([by_numpy, nullcontext]),
)
def test_every_decision_is_the_published_one(
    classes, capacity, weights, sizes, levels, lowest, seed, way
):
    with way():
        pool = ClassBalancedPool(
            classes, capacity, "float", age_weight=weights[0], uncertainty_weight=weights[1]
        )
    rules = PublishedRules(classes, capacity, *weights)
    generator = torch.Generator().manual_seed(seed)
    number = 0
    for size in sizes:
        labels = torch.randint(lowest, classes, (size,), generator=generator)
        doubt = torch.randint(0, levels, (size,), generator=generator).double() / levels
        names = torch.arange(number, number + size, dtype=torch.float64) / 1000
        pool.add(names.view(-1, 1, 1, 1), doubt, labels)
        for name, c, u in zip(names.tolist(), labels.tolist(), doubt.tolist(), strict=True):
            rules.insert(name, c, u)
        number += size
        batch, expected = pool.retrieve(), rules.read()
        assert batch.images.flatten().tolist() == [item[0] for item in expected]
        assert batch.ages.tolist() == [item[1] for item in expected]
        assert batch.uncertainty.tolist() == [item[2] for item in expected]


@pytest.mark.parametrize(("classes", "most"), [(10, 7), (64, 1), (100, 1)])
def test_a_class_holds_at_most_its_quota_rounded_up(classes, most):
    pool = ClassBalancedPool(classes)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        labels = torch.randint(0, classes, (64,), generator=generator)
        pool.add(torch.zeros(64, 1, 2, 2), torch.rand(64, generator=generator), labels)
    assert len(pool) == 64
    assert pool.retrieve().labels.bincount().max() == most
