"""A model's last linear layer, and how many classes a model says it has."""

from __future__ import annotations

from torch import nn


def last_linear(model: nn.Module) -> nn.Linear | None:
    """Return the last linear layer in order of registration, where classifiers keep their head."""
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    return layers[-1] if layers else None


def classes_of(model: nn.Module) -> int:
    """Return the width of the last linear layer; of a model without one what it says of itself.

    Models that end with a convolution keep ``num_classes``, as timm's and torchvision's do, or
    ``config.num_labels``, as Hugging Face's do; one that says nothing is a ``ValueError``.

    >>> classes_of(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)))
    5
    """
    head = last_linear(model)
    if head is not None:
        return head.out_features
    for module in model.modules():
        config = getattr(module, "config", None)
        for said in (getattr(module, "num_classes", None), getattr(config, "num_labels", None)):
            if type(said) is int and said > 1:
                return said
    raise ValueError("num_classes must be given: the model has no linear layer to read it from")
