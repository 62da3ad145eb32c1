"""The random view in two kernels in place of some fifty, where fused kernels are in use."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from multipool.ops import fused

_log = logging.getLogger("multipool")
_MOST = 4096  # pixels of an image that one block of the GPU holds at once
_BLOCK = 256


def usable(images: Tensor) -> bool:
    """Tell whether the kernels can treat ``images`` ``(B, C, H, W)``."""
    right = images.is_cuda and images.dtype == torch.float32 and images.shape[1] == 3
    small = right and 0 < images.shape[2] * images.shape[3] <= _MOST
    return small and fused.in_use(images.device) and _works(images.device)


@functools.cache
def _works(device: torch.device) -> bool:
    """Tell whether the kernels can be compiled here, by trying; once a device."""
    x = torch.zeros(1, 3, 32, 32, device=device)
    try:
        applied(x, range(5), [1.0] * 5, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.0, 0.0, 1.0], x, 0.0)
    except Exception as error:
        _log.info("views are made by plain kernels: %s", error)
        return False
    return True


def applied(
    images: Tensor,
    order: Sequence[int],
    factors: Sequence[float],
    matrix: Sequence[Sequence[float]],
    taps: Sequence[float],
    noise: Tensor,
    strength: float,
) -> Tensor:
    """Return the view ``(B, 3, H, W)``, channels last, of one draw for all images.

    ``order`` and ``factors`` are of the five colour operations, ``matrix`` ``(2, 3)`` leads from
    places about the centre of the view to such of the image, ``taps`` are of the blur (outermost
    first, to the middle one), ``noise`` is standard normal and scaled by ``strength``.
    """
    from multipool.ops import kernels_view

    count, _, height, width = images.shape
    pixels = height * width
    if images.stride(2) != width * images.stride(3):
        images = images.contiguous()
    coloured = torch.empty(images.shape, device=images.device)
    out = torch.empty_like(coloured, memory_format=torch.channels_last)
    packed = sum(kind << (3 * place) for place, kind in enumerate(order))
    kernels_view.colours[(count,)](
        images, coloured, packed, *factors, pixels, images.stride(0), images.stride(1),
        images.stride(3), BLOCK=1 << (pixels - 1).bit_length(), num_warps=8,
    )  # fmt: skip
    blocks = count * -(-pixels // _BLOCK)
    kernels_view.warp[(blocks,)](
        coloured, noise.contiguous(), out, *matrix[0], *matrix[1], *taps, strength, height, width,
        BLOCK=_BLOCK,
    )  # fmt: skip
    return out
