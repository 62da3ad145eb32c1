"""What a model returns: its logits, in a tensor, a tuple or under a name, or an error."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

_WANTED = (
    "logits (B, L) as a tensor, inside a tuple or list, or under 'logits' in a dict or "
    "ModelOutput; wrap the model in a module whose forward returns its logits"
)


def logits_of(output: object, rows: int, num_classes: int | None = None) -> Tensor:
    """Return the logits in what a model returned for ``rows`` images, else ``ValueError``.

    Of a tuple or list the first ``(rows, L)`` floats, of ``num_classes`` columns where that is
    known; of a dict, or of an object with that attribute, its ``logits``. As many classes as
    are known there must be.

    >>> import torch
    >>> logits_of({"loss": None, "logits": torch.zeros(2, 5)}, rows=2).shape
    torch.Size([2, 5])
    """
    found = _named(output)
    if isinstance(found, (tuple, list)):
        found = next((part for part in found if _fits(part, rows, num_classes)), found)
    if not isinstance(found, Tensor) or not found.is_floating_point():
        raise ValueError(f"the model returned {_describe(output)}, expected {_WANTED}")
    if found.ndim != 2 or len(found) != rows:
        raise ValueError(
            f"the model returned {_describe(found)} for {rows} images, expected {_WANTED}"
        )
    if found.shape[1] < 2:
        raise ValueError(
            f"the model gives {found.shape[1]} logits an image and a classifier gives at least 2; "
            "of one logit z for two classes make torch.cat([0 * z, z], dim=1)"
        )
    if num_classes not in (None, found.shape[1]):
        raise ValueError(
            f"the model gives {found.shape[1]} logits an image, num_classes is {num_classes}; they "
            f"must agree: pass num_classes={found.shape[1]}"
        )
    return found


def refused(images: Tensor, in_channels: int | None, error: Exception) -> ValueError:
    """Return in a sentence why a model failed on images ``(B, C, H, W)``.

    >>> import torch
    >>> refused(torch.zeros(2, 4, 8, 8), 3, RuntimeError("..."))
    ValueError('the model takes images of 3 channels, got 4')
    """
    if in_channels not in (None, images.shape[1]):
        return ValueError(
            f"the model takes images of {in_channels} channels, got {images.shape[1]}"
        )
    size = "x".join(map(str, images.shape[1:]))
    reason = str(error).partition("\n")[0]
    return ValueError(
        f"the model fails on images of {size} ({reason}); give it the size it was made for"
    )


def looks_like_probabilities(logits: Tensor) -> bool:
    """Tell whether the rows ``(B, L)`` are what a softmax returns: none below 0, each summing to 1.

    >>> import torch
    >>> looks_like_probabilities(torch.tensor([[0.2, 0.8]]))
    True
    >>> looks_like_probabilities(torch.tensor([[-0.2, 1.2]]))
    False
    """
    low = float(logits.detach().amin())
    return low >= 0 and bool(((logits.detach().sum(dim=1) - 1).abs() < 1e-3).all())


def _named(output: object) -> object:
    if isinstance(output, Mapping):
        return output.get("logits", output)
    return output if isinstance(output, Tensor) else getattr(output, "logits", output)


def _fits(part: object, rows: int, num_classes: int | None) -> bool:
    return (
        isinstance(part, Tensor)
        and part.is_floating_point()
        and part.ndim == 2
        and len(part) == rows
        and num_classes in (None, part.shape[1])
    )


def _describe(output: object) -> str:
    """Say what came, in a few words.

    >>> import torch
    >>> _describe((torch.zeros(2, 3, 4), None))
    'a tuple of (2, 3, 4) float32, NoneType'
    """
    if isinstance(output, Tensor):
        return f"{tuple(output.shape)} {str(output.dtype).removeprefix('torch.')}"
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with {', '.join(map(str, output)) or 'nothing in it'}"
    if isinstance(output, (tuple, list)):
        parts = ", ".join(map(_describe, output)) or "nothing"
        return f"a {type(output).__name__} of {parts}"
    return type(output).__name__
