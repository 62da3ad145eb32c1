"""Another number of classes: a new last layer on trained features."""

from __future__ import annotations

import torch
from torch import nn

from multipool.core import torch_generator
from multipool.models.files import classifier
from multipool.models.resnet import WeightNormLinear


def with_new_head(model: nn.Module, num_classes: int, seed: int = 0) -> nn.Module:
    """Replace the model's last linear layer in place by a new one, and return the model.

    The same seed, the same weights: uniform within 1 / sqrt(features) of zero, no bias.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    >>> with_new_head(net, 5)[1].weight.shape
    torch.Size([5, 12])
    """
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes}")
    old = classifier(model)
    name = next(name for name, module in model.named_modules() if module is old)
    kind = WeightNormLinear if isinstance(old, WeightNormLinear) else nn.Linear
    new = kind(old.in_features, num_classes).to(old.weight)
    bound = old.in_features**-0.5
    weight = torch.rand(new.weight.shape, generator=torch_generator(seed)).mul_(2 * bound) - bound
    with torch.no_grad():
        if isinstance(new, WeightNormLinear):
            new.weight_v.copy_(weight)
            new.weight_g.copy_(new.weight_v.norm(dim=1, keepdim=True))
        else:
            new.weight.copy_(weight)
        new.bias.zero_()
    model.set_submodule(name, new)
    return model
