"""Another number of classes: a new last layer, or a part of the one that is there."""

from __future__ import annotations

import copy
from collections.abc import Sequence

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
        if new.bias is not None:
            new.bias.zero_()
    model.set_submodule(name, new)
    return model


def with_outputs(model: nn.Module, outputs: Sequence[int]) -> nn.Module:
    """Return a copy of the model that has these of its outputs, in this order, and no others.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 1000))
    >>> with_outputs(net, [207, 3])(torch.zeros(1, 3, 2, 2)).shape
    torch.Size([1, 2])
    """
    old = classifier(model)
    wrong = [output for output in outputs if not 0 <= output < old.out_features]
    if wrong or len(set(outputs)) != len(outputs) or len(outputs) < 2:
        raise ValueError(
            f"outputs must be at least 2 different ones of the model's 0 to "
            f"{old.out_features - 1}, got {wrong[0] if wrong else list(outputs)[:5]}"
        )
    name = next(name for name, module in model.named_modules() if module is old)
    new = nn.Linear(old.in_features, len(outputs), bias=old.bias is not None).to(old.weight)
    rows = torch.as_tensor(list(outputs), device=old.weight.device)
    with torch.no_grad():
        new.weight.copy_(old.weight[rows])
        if old.bias is not None:
            new.bias.copy_(old.bias[rows])
    narrowed = copy.deepcopy(model)
    narrowed.set_submodule(name, new)
    return narrowed
