"""A frozen copy owes nothing to its original, and weights of any number of axes are laid out."""

import torch
from torch import nn

from multipool.ops.copies import frozen_copy, lay_channels_last


def test_a_copy_is_frozen_in_float32_and_the_original_stays_as_it_was(tiny_net):
    model = tiny_net.half().train()
    body = frozen_copy(model)
    assert not body.training
    assert all(p.dtype == torch.float32 and not p.requires_grad for p in body.parameters())
    assert model.training
    assert all(p.dtype == torch.float16 and p.requires_grad for p in model.parameters())


def test_a_torchscript_model_is_copied_as_well(tiny_net, make_images):
    traced, x = torch.jit.trace(tiny_net, make_images(2)), make_images(5)
    body = frozen_copy(traced)
    torch.testing.assert_close(body(x), tiny_net(x))
    assert not any(p.requires_grad for p in body.parameters())
    assert all(p.requires_grad for p in traced.parameters())


def test_four_axes_are_laid_out_and_five_left_alone():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv3d(3, 4, 3))
    before = [p.clone() for p in body.parameters()]
    lay_channels_last(body)
    assert body[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert body[1].weight.is_contiguous()
    assert all(torch.equal(a, b) for a, b in zip(before, body.parameters(), strict=True))
