"""What speeds are measured on: a model, images, and batches of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multipool.core import ImageSet, as_float, torch_generator


def shapes_model(device: torch.device | str = "cpu") -> tuple[nn.Module, Tensor]:
    """Return the shipped model and 1,000 test images of shapes-c, clean."""
    from multipool.data import load
    from multipool.models import load as load_model

    images: ImageSet = load("shapes-c").source("test").whole()
    return load_model("shapes-wrn10-1").to(device), images.images[:1000]


def model_and_grain(
    weights: str, pixels: int, device: torch.device | str = "cpu", colours: int = 156
) -> tuple[nn.Module, Tensor]:
    """Return the model of a file or name, and 1,000 uint8 images of random colours and grain.

    A memory sorts images by colour, so each has one of its own, of ``colours`` levels a channel;
    what else they show is no matter. Few levels look like one domain.
    """
    from multipool.models import load as load_model

    if pixels < 8:
        raise ValueError(f"pixels must be at least 8, got {pixels}")
    generator = torch_generator(0)
    colour = torch.randint(0, colours, (1000, 3, 1, 1), generator=generator)
    grain = torch.randint(0, 100, (1000, 3, pixels, pixels), generator=generator)
    return load_model(weights).to(device), (colour + grain).to(torch.uint8)


def walk(images: Tensor, batch_size: int, count: int, seed: int) -> list[Tensor]:
    """Return ``count`` random batches, on the images' device."""
    generator = torch_generator(seed)
    picks = torch.randint(len(images), (count, batch_size), generator=generator)
    return [images[rows.to(images.device)] for rows in picks]


def in_lights(batches: list[Tensor], look: int, seed: int) -> list[Tensor]:
    """Return uint8 or float batches, every ``look`` of them in a light of its own; 0: as they are.

    A light is half the contrast and a colour: a domain, as methods with pools see it.
    """
    if look == 0:
        return batches
    count = -(-len(batches) // look)
    lights = 0.5 * torch.rand(count, 3, 1, 1, generator=torch_generator(seed))
    return [_in_light(batch, lights[i // look]) for i, batch in enumerate(batches)]


def _in_light(images: Tensor, light: Tensor) -> Tensor:
    shown = 0.5 * as_float(images) + light.to(images.device)
    return (255 * shown).round().to(torch.uint8) if images.dtype == torch.uint8 else shown
