"""A model's frozen copy, and how the weights of one are laid out."""

from __future__ import annotations

import copy

import torch
from torch import nn


def frozen_copy(model: nn.Module) -> nn.Module:
    """Return a copy in float32 and eval mode whose parameters have no gradients."""
    with torch.no_grad():  # else a TorchScript model's copy would depend on its original
        body = copy.deepcopy(model).float().eval()
    for parameter in body.parameters():  # one by one: a TorchScript model takes no other way
        parameter.requires_grad_(False)
    return body


def lay_channels_last(body: nn.Module) -> None:
    """Lay out whatever has four axes; ``Module.to`` would fail on the five of a Conv3d."""
    for tensor in (*body.parameters(), *body.buffers()):
        if tensor.ndim == 4:
            tensor.data = tensor.data.to(memory_format=torch.channels_last)
