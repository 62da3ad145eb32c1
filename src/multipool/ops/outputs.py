"""Where a model keeps its logits: in the tensor it returns, in a tuple, or under a name."""

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
    known; of a dict, or of an object with that attribute, its ``logits``.

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
    return found


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
