import pytest
import torch

from multipool.ops.flat import Flat, gradients


def test_leaves_keep_their_values_and_follow_the_vector():
    shapes = [(4, 3, 2, 2), (5,), (2, 7), (3, 1, 1, 1)]
    leaves = [torch.randn(s) for s in shapes]
    before = [t.clone() for t in leaves]
    flat = Flat(leaves)
    assert all(torch.equal(a, b) for a, b in zip(leaves, before, strict=True))
    flat.values.mul_(2)
    assert all(torch.equal(a, 2 * b) for a, b in zip(leaves, before, strict=True))
    assert leaves[0].is_contiguous(memory_format=torch.channels_last)


def test_gradients_lie_where_their_values_lie():
    leaves = [torch.randn(4, 3, 2, 2), torch.randn(5), torch.randn(2)]
    flat, other = Flat(leaves, trainable=True), Flat([torch.randn(3)], trainable=True)
    scale = torch.randn(4, 3, 2, 2)
    loss = (scale * leaves[0]).sum() + leaves[1].square().sum() + 3 * other.leaves[0].sum()
    first, second = gradients(loss, flat, other)
    moved = [t.detach().clone() for t in leaves]
    flat.values.sub_(first)
    torch.testing.assert_close(leaves[0].detach(), moved[0] - scale)
    torch.testing.assert_close(leaves[1].detach(), -moved[1])
    assert torch.equal(leaves[2].detach(), moved[2])  # not in the loss
    assert torch.equal(second, torch.full((3,), 3.0))


def test_half_precision_leaves_are_copies_that_a_refresh_renews():
    leaves = [torch.randn(6).bfloat16(), torch.randn(2)]
    flat = Flat(leaves, trainable=True)
    with torch.no_grad():
        flat.values.fill_(1 + 2**-10)  # too fine a number for bfloat16
    flat.refresh()
    assert torch.equal(leaves[0].detach(), torch.ones(6).bfloat16())
    assert torch.equal(leaves[1].detach(), torch.full((2,), 1 + 2**-10))
    assert flat.values.dtype == torch.float32
    assert gradients(leaves[0].float().sum(), flat)[0].dtype == torch.float32


def test_gradients_too_small_for_float16_are_not_lost():
    leaves = [torch.ones(3).half(), torch.ones(2)]
    flat = Flat(leaves, trainable=True)
    loss = 1e-8 * (leaves[0].float().sum() + 3 * leaves[1].sum())  # 6e-8 is float16's least
    expected = 1e-8 * torch.tensor([1.0, 1, 1, 3, 3])
    torch.testing.assert_close(gradients(loss, flat)[0], expected, rtol=1e-3, atol=0)


def test_a_vector_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one tensor"):
        Flat([])
