"""A branch: flat vectors, their views, and their gradient."""

import copy
import pickle

import pytest
import torch

from multipool.ops import Branch, FlatAdam, LayerState


def states(seed: int = 0) -> list[LayerState]:
    g = torch.Generator().manual_seed(seed)
    return [LayerState(*(torch.rand(c, generator=g) + 0.1 for _ in range(4)), 1e-3) for c in (2, 3)]


def test_leaves_and_layers_are_views_of_the_flat_vectors():
    branch = Branch(states(), trainable=True)
    branch.affine.add_(1)
    branch.statistics.mul_(2)
    first = states()[0]
    torch.testing.assert_close(branch.layers[0].weight.detach(), first.weight + 1)
    torch.testing.assert_close(branch.layers[0].var, first.var * 2)


def test_a_copy_shares_nothing():
    branch = Branch(states())
    other = branch.copy()
    other.affine.zero_()
    other.statistics.zero_()
    assert branch.affine.abs().min() > 0
    assert branch.statistics.abs().min() > 0


def test_the_gradient_is_flat_and_counts_missed_layers_as_zero():
    branch = Branch(states(), trainable=True)
    loss = (branch.layers[1].weight * torch.tensor([1.0, 2.0, 3.0])).sum()
    expected = torch.tensor([0.0, 0, 0, 0, 1, 2, 3, 0, 0, 0])
    assert torch.equal(branch.gradient(loss), expected)


def test_flat_adam_equals_adam_over_separate_tensors():
    branch = Branch(states(), trainable=True)
    tensors = [t.detach().clone().requires_grad_() for t in branch.leaves]
    ours, theirs = FlatAdam(branch.affine, 1e-2), torch.optim.Adam(tensors, lr=1e-2)
    g = torch.Generator().manual_seed(3)
    for _ in range(20):
        gradient = torch.randn(len(branch.affine), generator=g)
        ours.step(gradient)
        for tensor, part in zip(tensors, gradient.split(branch.sizes), strict=True):
            tensor.grad = part.clone()
        theirs.step()
    torch.testing.assert_close(branch.affine, torch.cat([t.detach() for t in tensors]))
    assert float(ours.state["step"]) == 20


@pytest.mark.parametrize("again", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copied_and_pickled_its_views_share_its_own_vectors(again):
    branch = Branch(states(), trainable=True)
    other = again(branch)
    other.affine.add_(1)
    assert torch.equal(other.layers[0].weight, branch.layers[0].weight + 1)
    assert other.leaves[0].requires_grad


def test_gradients_through_float16_are_kept_from_vanishing_by_a_copy_too():
    branch = Branch(states(), dtype=torch.float16).copy(trainable=True)
    small = branch.layers[0].weight.half().float()  # what comes back through it is float16
    found = branch.gradient(1e-8 * small.sum())
    expected = torch.tensor([1e-8, 1e-8] + [0.0] * 8)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)
    assert pickle.loads(pickle.dumps(branch)).dtype == torch.float16
