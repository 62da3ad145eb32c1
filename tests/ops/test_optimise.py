"""Flat optimisers against torch's own, tensor by tensor."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.ops.optimise import FlatAdam, FlatSGD, step_where


def gradients(count, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(7, generator=g) for _ in range(count)]


@pytest.mark.parametrize("nesterov", [False, True])
@given(momentum=st.sampled_from([0.5, 0.9]), seed=st.integers(0, 20))
def test_flat_sgd_is_torchs_on_separate_tensors(nesterov, momentum, seed):
    start = gradients(1, seed + 100)[0]
    flat = FlatSGD(start.clone(), 0.1, momentum, nesterov=nesterov)
    parts = [torch.nn.Parameter(t.clone()) for t in start.split([3, 4])]
    theirs = torch.optim.SGD(parts, lr=0.1, momentum=momentum, nesterov=nesterov)
    for gradient in gradients(5, seed):
        flat.step(gradient)
        for part, g in zip(parts, gradient.split([3, 4]), strict=True):
            part.grad = g.clone()
        theirs.step()
    torch.testing.assert_close(flat.values, torch.cat([p.detach() for p in parts]))


def test_flat_adam_is_torchs_on_separate_tensors():
    start = gradients(1, 100)[0]
    flat = FlatAdam(start.clone(), 0.1)
    parts = [torch.nn.Parameter(t.clone()) for t in start.split([3, 4])]
    theirs = torch.optim.Adam(parts, lr=0.1)
    for gradient in gradients(50):
        flat.step(gradient)
        for part, g in zip(parts, gradient.split([3, 4]), strict=True):
            part.grad = g.clone()
        theirs.step()
        assert torch.equal(flat.values, torch.cat([p.detach() for p in parts]))


@pytest.mark.parametrize("kind", [FlatAdam, FlatSGD])
def test_the_state_is_complete_from_the_start(kind):
    one, other = kind(torch.zeros(7), 0.1), kind(torch.zeros(7), 0.1)
    first, second = gradients(2)
    one.step(first)
    for name, tensor in other.state.items():
        tensor.copy_(one.state[name])
    other.values.copy_(one.values)
    one.step(second)
    other.step(second)
    assert torch.equal(one.values, other.values)


@pytest.mark.parametrize("kind", [FlatAdam, FlatSGD])
def test_a_step_that_is_not_taken_leaves_no_trace(kind):
    skipping, plain = kind(torch.zeros(7), 0.1), kind(torch.zeros(7), 0.1)
    for i, gradient in enumerate(gradients(6)):
        step_where(skipping, gradient, torch.tensor(i % 2 == 0))
        if i % 2 == 0:
            plain.step(gradient)
    assert torch.equal(skipping.values, plain.values)
    assert all(torch.equal(skipping.state[k], plain.state[k]) for k in plain.state)


def test_a_step_may_be_taken_by_some_values_only():
    optimizer = FlatSGD(torch.zeros(7), 0.1)
    step_where(optimizer, torch.ones(7), torch.arange(7) < 3)
    assert (optimizer.values != 0).tolist() == [True] * 3 + [False] * 4
    assert (optimizer.state["momentum"] != 0).tolist() == [True] * 3 + [False] * 4
