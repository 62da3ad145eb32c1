import math

import pytest
import torch

from multipool.ops.contrast import contrastive_loss, nearest_by_cosine


@pytest.mark.parametrize(("views", "count"), [(3, 5), (2, 4), (3, 1)])
def test_the_contrastive_loss_is_its_definition(views, count):
    torch.manual_seed(0)
    vectors = torch.randn(views, count, 6, dtype=torch.float64)
    every = [(v, i) for v in range(views) for i in range(count)]
    unit = {k: vectors[k] / vectors[k].norm() for k in every}
    losses = []
    for anchor in every:
        others = [k for k in every if k != anchor]
        total = sum(math.exp(float(unit[anchor] @ unit[k]) / 0.1) for k in others)
        positives = [k for k in others if k[1] == anchor[1]]
        terms = [math.log(math.exp(float(unit[anchor] @ unit[k]) / 0.1) / total) for k in positives]
        losses.append(-sum(terms) / len(terms))
    expected = sum(losses) / len(losses)
    assert float(contrastive_loss(vectors, 0.1)) == pytest.approx(expected)


def test_views_that_agree_cost_less():
    torch.manual_seed(0)
    one = torch.randn(8, 16)
    alike, apart = torch.stack([one, one, one]), torch.stack([one, one.roll(1, 0), one.roll(2, 0)])
    assert contrastive_loss(alike, 0.1) < contrastive_loss(apart, 0.1)


def test_the_nearest_prototype_is_by_angle_and_never_an_absent_one():
    prototypes = torch.tensor([[10.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    features = torch.tensor([[0.1, 0.0], [-1.0, 0.2]])  # the second is at more than 90 degrees
    found = nearest_by_cosine(features, prototypes)
    assert torch.equal(found, prototypes[[0, 2]])


def test_the_gradient_is_finite_although_an_anchor_is_not_its_own_neighbour():
    vectors = torch.randn(3, 2, 4, requires_grad=True)
    contrastive_loss(vectors, 0.1).backward()
    assert vectors.grad.isfinite().all()
    assert vectors.grad.abs().max() > 0
