"""A model's frozen copy, and how the weights of one are laid out."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


def frozen_copy(model: nn.Module) -> nn.Module:
    """Return a copy in float32 and eval mode whose parameters have no gradients."""
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given
    _check_weights(model)
    with torch.no_grad():  # else a TorchScript model's copy would depend on its original
        body = _copied(model).float().eval()
    for parameter in body.parameters():  # one by one: a TorchScript model takes no other way
        parameter.requires_grad_(False)
    return body


def _check_weights(model: nn.Module) -> None:
    for tensor in (*model.parameters(), *model.buffers()):
        if isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer)):
            raise ValueError(
                "the model has lazy layers without a shape yet; call it on images once"
            )
        if tensor.is_meta:
            raise ValueError(
                "the model is on the meta device, where weights have no values; load them first"
            )


def _copied(model: nn.Module) -> nn.Module:
    # torch.nn.utils.weight_norm keeps a weight that it computed, with its gradient's history.
    held = [value for part in model.modules() for value in vars(part).values()]
    computed = {id(t): t.detach().clone() for t in held if isinstance(t, Tensor) and not t.is_leaf}
    try:
        return copy.deepcopy(model, computed)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"the model cannot be copied ({reason}), and an adapter works on a copy; take out what "
            "copy.deepcopy refuses"
        ) from error


def lay_channels_last(body: nn.Module) -> None:
    """Lay out whatever has four axes; ``Module.to`` would fail on the five of a Conv3d."""
    for tensor in (*body.parameters(), *body.buffers()):
        if tensor.ndim == 4:
            tensor.data = tensor.data.to(memory_format=torch.channels_last)
