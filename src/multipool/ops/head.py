"""A model's last linear layer, and how many classes a model says it has."""

from __future__ import annotations

from torch import Tensor, nn


def last_linear(model: nn.Module, num_classes: int | None = None) -> nn.Linear | None:
    """Return the last linear layer in order of registration, where classifiers keep their head.

    Where the number of classes is known, the last that has so many outputs: heads for another
    task, which training left behind, are often registered after it.
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    fitting = [m for m in layers if m.out_features == num_classes]
    return next(reversed(fitting or layers), None)


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


def float_input(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Give a layer float32: a forward pre-hook for the head of a network in half precision."""
    return (inputs[0].float(), *inputs[1:])
