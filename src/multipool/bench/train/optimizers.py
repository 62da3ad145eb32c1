"""The optimisers that train a source model, and their state as flat tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

# What an optimiser remembers of a parameter goes into a checkpoint under these names.
_KEYS = {"momentum_buffer": "momentum", "exp_avg": "first", "exp_avg_sq": "second", "step": "step"}


def _sgd(model: nn.Module, lr: float, weight_decay: float, momentum: float) -> Optimizer:
    """Return SGD with Nesterov momentum; all parameters decay."""
    return torch.optim.SGD(
        model.parameters(),
        lr=lr,
        momentum=momentum,
        weight_decay=weight_decay,
        nesterov=True,
        fused=_on_gpu(model),
    )


def _adamw(model: nn.Module, lr: float, weight_decay: float, momentum: float) -> Optimizer:
    """Return AdamW; biases and the parameters of normalisation layers do not decay."""
    wide = [p for p in model.parameters() if p.ndim > 1]
    flat = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": wide, "weight_decay": weight_decay},
        {"params": flat, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(momentum, 0.999), fused=_on_gpu(model))


def _on_gpu(model: nn.Module) -> bool:
    """Return whether all parameters are on a GPU, where one kernel can update many at once."""
    return all(p.is_cuda for p in model.parameters())


OPTIMIZERS: dict[str, Callable[[nn.Module, float, float, float], Optimizer]] = {
    "sgd": _sgd,
    "adamw": _adamw,
}


def store(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return what the optimiser remembers of the model's parameters, by their names."""
    return {
        f"{_KEYS[key]}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def restore(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put the optimiser into a stored state; a missing tensor is a ``KeyError``."""
    wanted = ("momentum_buffer",) if isinstance(optimizer, torch.optim.SGD) else tuple(_KEYS)[1:]
    for name, parameter in model.named_parameters():
        for key in wanted:
            stored = tensors[f"{_KEYS[key]}.{name}"]
            if key == "step":  # a number, on the host unless a kernel of its own counts on
                place = parameter.device if optimizer.defaults["fused"] else stored.device
                optimizer.state[parameter][key] = stored.to(place, copy=True)
                continue
            value = torch.empty_like(parameter).copy_(stored)
            optimizer.state[parameter][key] = value.detach()
