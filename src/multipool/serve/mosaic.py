"""Several small pictures in one."""

from __future__ import annotations

import io
import math

import torch
from PIL import Image
from torch import Tensor


def mosaic(images: Tensor) -> bytes:
    """Return uint8 images ``(N, C, H, W)``, three channels or one, side by side as a PNG file."""
    count, channels, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    sheet = torch.full((channels, rows * (height + 1), columns * (width + 1)), 255).to(torch.uint8)
    for index in range(count):
        top, left = index // columns * (height + 1), index % columns * (width + 1)
        sheet[:, top : top + height, left : left + width] = images[index]
    kept = sheet[:3] if channels >= 3 else sheet[:1]
    pixels = kept.permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels if channels >= 3 else pixels[:, :, 0]).save(file, "PNG")
    return file.getvalue()
