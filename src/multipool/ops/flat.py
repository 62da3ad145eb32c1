"""Many tensors as views of one flat vector, so that whatever moves them all is one operation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# What passes compute in, by the name of the precision.
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SCALE = 4096.0  # gradients of activations reach 1e-6 and less, where float16 has few bits


class Flat:
    """Leaf tensors of any shape, moved into one vector ``values`` ``(P,)`` float32.

    The leaves stay the same objects and see every change of ``values``. Leaves in half precision
    are working copies of the float32 values: call :meth:`refresh` before a pass uses them.
    """

    def __init__(self, leaves: Sequence[Tensor], *, trainable: bool = False) -> None:
        if not leaves:
            raise ValueError("a flat vector needs at least one tensor, got none")
        self.leaves = list(leaves)
        sizes = [leaf.numel() for leaf in self.leaves]
        self.values = torch.cat([_flatten(leaf.detach()).float() for leaf in self.leaves])
        low = [leaf.dtype for leaf in self.leaves if leaf.dtype != torch.float32]
        self._working = self.values.to(low[0]) if low else None
        exact = self.values.split(sizes)
        working = exact if self._working is None else self._working.split(sizes)
        for leaf, full, half in zip(self.leaves, exact, working, strict=True):
            leaf.data = _like(full if leaf.dtype == torch.float32 else half, leaf)
            leaf.requires_grad_(trainable)

    def refresh(self) -> None:
        """Bring working copies in half precision up to date; nothing to do for float32."""
        if self._working is not None:
            self._working.copy_(self.values)


def gradients(loss: Tensor, *flats: Flat) -> list[Tensor]:
    """Return d loss / d values of each flat vector from one backward pass, ``(P,)`` each.

    Tensors that the loss does not depend on have gradient 0.
    """
    check_gradient(loss)
    leaves = [leaf for flat in flats for leaf in flat.leaves]
    scale = max(gradient_scale(leaf.dtype) for leaf in leaves)
    parts = iter(torch.autograd.grad(scaled(loss, scale), leaves, allow_unused=True))
    found = [torch.cat([_part(next(parts), leaf) for leaf in flat.leaves]) for flat in flats]
    return [scaled(vector, 1 / scale) for vector in found]


def gradient_scale(dtype: torch.dtype) -> float:
    """Return what a loss is multiplied by, so that gradients of type ``dtype`` are not lost."""
    return _SCALE if dtype == torch.float16 else 1.0


def scaled(values: Tensor, scale: float) -> Tensor:
    """Return ``scale * values``, or the very same if that changes nothing."""
    return values if scale == 1 else values * scale


def check_gradient(loss: Tensor) -> None:
    """Raise ``ValueError`` for a loss that no parameter can learn from."""
    if not loss.requires_grad:
        raise ValueError(
            "the model's output has no gradient, so nothing can be learned: its forward runs under "
            "torch.no_grad or detaches something; take that out"
        )


def _part(gradient: Tensor | None, leaf: Tensor) -> Tensor:
    if gradient is None:
        return torch.zeros(leaf.numel(), dtype=torch.float32, device=leaf.device)
    return _flatten(gradient).float()


def _flatten(tensor: Tensor) -> Tensor:
    """Return the values in the order in which :func:`_like` lays them out."""
    # Channels last: convolutions want their weights so, and the views must be that.
    return (tensor.permute(0, 2, 3, 1) if tensor.ndim == 4 else tensor).reshape(-1)


def _like(part: Tensor, leaf: Tensor) -> Tensor:
    """Return the vector ``part`` as a view of the shape of ``leaf``."""
    if leaf.ndim != 4:
        return part.view(leaf.shape)
    rows, channels, height, width = leaf.shape
    return part.view(rows, height, width, channels).permute(0, 3, 1, 2)
