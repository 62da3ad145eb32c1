"""Masked means against boolean indexing."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.ops.masked import masked_mean


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
