"""A branch: flat vectors, their views, their gradient, and the pull back to source."""

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


def test_align_takes_one_gradient_step_on_the_wasserstein_distance():
    source, branch = Branch(states(0)), Branch(states(1))
    rate = 0.05
    expected = []
    for ours, theirs in zip(branch.layers, source.layers, strict=True):
        mean = ours.mean.clone().requires_grad_()
        s = (ours.var + 1e-3).sqrt().requires_grad_()
        gap = (mean - theirs.mean).square().sum() + (s - (theirs.var + 1e-3).sqrt()).square().sum()
        d_mean, d_s = torch.autograd.grad(gap, [mean, s])
        expected += [mean - rate * d_mean, (s - rate * d_s).square() - 1e-3]
    branch.align(source, rate)
    torch.testing.assert_close(branch.statistics, torch.cat(expected).detach())


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
