"""Masked means against boolean indexing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.ops import LayerState, batch
from multipool.ops.masked import MaskedBatch, masked_mean


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.sampled_from([(), (4,)]))
def test_it_is_the_mean_of_the_chosen_rows_or_zero(mask, shape):
    mask = torch.tensor(mask)
    values = torch.randn(len(mask), *shape, generator=torch.Generator().manual_seed(0))
    expected = values[mask].mean(0) if mask.any() else torch.zeros(shape)
    torch.testing.assert_close(masked_mean(values, mask), expected)


def test_rows_left_out_may_be_anything_and_get_no_gradient():
    values = torch.tensor([1.0, torch.inf, torch.nan], requires_grad=True)
    mean = masked_mean(values, torch.tensor([True, False, False]))
    assert mean.item() == 1.0
    assert torch.autograd.grad(mean, values)[0].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("shape", [(6, 3, 4, 4), (6, 3)])
@given(mask=st.lists(st.booleans(), min_size=6, max_size=6).filter(any))
def test_masked_statistics_are_those_of_the_batch_without_the_others(shape, mask):
    g = torch.Generator().manual_seed(0)
    draw = lambda: torch.rand(3, generator=g, dtype=torch.float64)  # noqa: E731
    state = LayerState(draw().requires_grad_(), draw().requires_grad_(), draw(), draw(), 1e-5)
    x = torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_()
    mask = torch.tensor(mask)
    upstream = torch.randn(shape, generator=g, dtype=torch.float64)
    upstream[~mask] = 0
    leaves = [x, state.weight, state.bias]
    alone, among = batch(x[mask], state), MaskedBatch(mask)(x, state)
    torch.testing.assert_close(among[mask], alone, rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad((alone * upstream[mask]).sum(), leaves)
    got = torch.autograd.grad((among * upstream).sum(), leaves)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
