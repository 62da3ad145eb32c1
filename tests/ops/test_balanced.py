import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.ops import Branch, LayerState, frozen
from multipool.ops.balanced import Balanced, BalancedBranch

CLASSES, CHANNELS = 4, 3


def owner(trainable=False):
    torch.manual_seed(3)
    layers = [
        LayerState(
            torch.rand(CHANNELS) + 0.5, torch.randn(CHANNELS),
            torch.randn(CHANNELS), torch.rand(CHANNELS) + 0.3, 1e-5,
        )
        for _ in range(2)
    ]  # fmt: skip
    return Branch(layers, trainable=trainable)


class Literal:
    """methods.md 3.10 for one layer, a loop over classes and samples, in float64."""

    def __init__(self, layer, eta, gamma):
        self.mu = layer.mean.double().repeat(CLASSES, 1)
        self.var = layer.var.double().repeat(CLASSES, 1)
        self.layer, self.eta, self.gamma = layer, eta, gamma

    def __call__(self, x, labels):
        mu, var, x = self.mu.detach(), self.var.detach(), x.double()
        present = sorted(set(labels.tolist()))
        delta, step, spread, number = {}, {}, {}, {}
        for k in present:
            rows = [i for i in range(len(x)) if labels[i] == k]
            n = len(rows)
            step[k], number[k] = (self.eta if n <= 1 / self.eta else 1 / n), n
            centred = [x[i] - mu[k].view(-1, *[1] * (x.ndim - 2)) for i in rows]
            space = tuple(range(1, x.ndim - 1))
            mean = [c.mean(space) if space else c for c in centred]
            square = [(c**2).mean(space) if space else c**2 for c in centred]
            delta[k], spread[k] = step[k] * sum(mean), sum(square)
        new_mu, new_var = list(mu), list(var)
        for k in present:
            new_mu[k] = mu[k] + (1 - self.gamma) * delta[k]
            change = step[k] * (spread[k] - number[k] * var[k]) - delta[k] ** 2
            new_var[k] = var[k] + (1 - self.gamma) * change
        u = len(present)
        shared = sum(delta.values()) / u
        gain = sum(step[k] * spread[k] - delta[k] ** 2 for k in present) / u
        loss = sum(step[k] * number[k] for k in present) / u
        self.mu = torch.stack([m + self.gamma * shared for m in new_mu])
        self.var = torch.stack([v + self.gamma * (gain - loss * v) for v in new_var])
        self.mean = self.mu.mean(0)
        self.total = self.var.mean(0) + self.mu.var(0, unbiased=True)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        hat = (x - self.mean.view(shape)) / (self.total.view(shape) + self.layer.eps).sqrt()
        return hat * self.layer.weight.view(shape) + self.layer.bias.view(shape)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("eta", [0.05, 0.5])
@pytest.mark.parametrize("space", [(3, 2), ()])
def test_three_batches_are_as_defined(eta, gamma, space):
    branch = BalancedBranch(owner(), CLASSES)
    reference = Literal(owner().layers[1], eta, gamma)
    for t in range(3):
        torch.manual_seed(t)
        x = torch.randn(7, CHANNELS, *space) + t
        labels = torch.randint(0, CLASSES - 1, (7,))  # one class never comes
        found = Balanced(labels, CLASSES, eta, gamma)(x, branch.layers[1])
        expected = reference(x, labels)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    layer = branch.layers[1]
    for a, b in (
        (layer.class_mean, reference.mu),
        (layer.class_var, reference.var),
        (layer.mean, reference.mean),
        (layer.var, reference.total),
    ):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_gradients_flow_through_the_batchs_own_contribution(gamma):
    torch.manual_seed(0)
    x, up = torch.randn(6, CHANNELS, 2, 2, requires_grad=True), torch.randn(6, CHANNELS, 2, 2)
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    branch, reference = BalancedBranch(owner(True), CLASSES), Literal(owner().layers[0], 0.4, gamma)
    found = Balanced(labels, CLASSES, 0.4, gamma)(x, branch.layers[0])
    ours = torch.autograd.grad((found * up).sum(), x)[0]
    theirs = torch.autograd.grad((reference(x, labels) * up).sum(), x)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_at_first_every_class_holds_the_source_and_evaluation_equals_the_source():
    source = owner()
    branch = BalancedBranch(source, CLASSES)
    x = torch.randn(4, CHANNELS, 2, 2)
    assert torch.equal(frozen(x, branch.layers[0]), frozen(x, source.layers[0]))
    assert all(torch.equal(row, source.statistics) for row in branch.class_statistics)


def test_branches_share_parameters_with_their_owner_and_nothing_else():
    shared = owner(True)
    one, other = BalancedBranch(shared, CLASSES), BalancedBranch(shared, CLASSES)
    x, labels = torch.randn(5, CHANNELS, 2, 2), torch.tensor([0, 1, 2, 3, 0])
    Balanced(labels, CLASSES, 0.1, 0.1)(x, one.layers[0])
    assert not torch.equal(one.statistics, other.statistics)
    assert torch.equal(other.statistics, shared.statistics)
    shared.affine.mul_(2)
    assert torch.equal(one.layers[0].weight, other.layers[0].weight)
    assert torch.equal(one.layers[0].weight.detach(), shared.affine[:CHANNELS])


@given(repeat=st.integers(2, 6))
def test_a_class_that_comes_more_often_does_not_weigh_more(repeat):
    """With the mean of its class for each copy, the balance is the same however many there are."""
    x = torch.randn(2, CHANNELS, 1, 1, generator=torch.Generator().manual_seed(repeat))
    few, many = BalancedBranch(owner(), 2), BalancedBranch(owner(), 2)
    Balanced(torch.tensor([0, 1]), 2, 1.0, 0.0)(x, few.layers[0])
    crowd = torch.cat([x[:1].repeat(repeat, 1, 1, 1), x[1:]])
    labels = torch.tensor([0] * repeat + [1])
    Balanced(labels, 2, 1.0, 0.0)(crowd, many.layers[0])
    torch.testing.assert_close(few.layers[0].mean, many.layers[0].mean)
