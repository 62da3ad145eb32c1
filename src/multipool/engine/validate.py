"""Which images an adapter takes, which rows of a batch are no images, and who answers those."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import as_float, check_as_before, check_images
from multipool.engine.method import Method
from multipool.ops import Network

_log = logging.getLogger("multipool")
_NEUTRAL = 0.5  # stands for a pixel that is not a number
_COLOURS = (1, 3, 4)  # channels that pictures have
_FEW = 8  # images that a model is tried out with


@dataclass(frozen=True)
class ValidInput:
    """Float images ``(B, C, H, W)`` in [0, 1]; ``bad`` ``(B,)`` bool: mended rows, None: none."""

    images: Tensor
    bad: Tensor | None = None

    def answer(self, act: Callable[[Tensor], Tensor], network: Network) -> Tensor:
        """Return logits ``(B, L)``: of good rows what ``act`` says, of bad ones the source's."""
        if self.bad is None:
            return act(network.prepare(self.images))
        good = ~self.bad
        learned = act(network.prepare(self.images[good])) if bool(good.any()) else None
        with torch.no_grad():
            plain = network.plain(network.prepare(self.images[self.bad]))
        logits = plain.new_empty(len(good), plain.shape[1], dtype=torch.float32)
        logits[self.bad] = plain.nan_to_num().float()
        if learned is not None:
            logits[good] = learned
        return logits


class Entrance:
    """Takes a batch in for one method: a batch that cannot be right is a sentence."""

    def __init__(self, method: Method, bad_input: str) -> None:
        self._method, self._bad_input = method, bad_input
        self._known: set[tuple[int, ...]] = set()  # shapes (C, H, W) that the model takes
        self._alone = method.normalises_by == "batch" and method.network.has_statistics

    def __call__(self, images: object) -> ValidInput:
        """Return the checked batch on the method's device, or raise ``ValueError``."""
        network = self._method.network
        check_layout(images, network.in_channels)
        given = validate_input(images, self._method.device, self._bad_input)
        self._check_shape(given.images)
        if self._alone and len(given.images) == 1:
            self._alone = False  # said once
            _log.warning(
                "method '%s' normalises a batch by its own statistics and this batch has one "
                "image: give it larger batches, or choose a method that keeps statistics, such as "
                "multipool",
                self._method.name,
            )
        return given

    def _check_shape(self, images: Tensor) -> None:
        """Refuse images that a bank or the model would refuse later, when much has happened."""
        shape = tuple(images.shape[1:])
        for bank in self._method.banks().values():
            check_as_before(images, bank.image_shape)
        if shape in self._known:
            return
        network = self._method.network
        few = network.prepare(images[:_FEW])
        try:
            network.try_out(few)
            if shape[0] == 1 != (network.in_channels or 1):
                check_grey(few, network)
        except (torch.OutOfMemoryError, MemoryError):
            return  # it says nothing about the shape
        self._known.add(shape)


def check_grey(images: Tensor, network: Network) -> None:
    """Refuse grey images ``(B, 1, H, W)`` that only broadcasting made into what the model takes.

    A model that makes colours of them itself takes no images of several channels.
    """
    wide = images.expand(-1, network.in_channels or 1, -1, -1)
    try:
        network.try_out(wide)
    except ValueError:
        return
    raise ValueError(
        f"the model takes images of {wide.shape[1]} channels, got 1; pass "
        f"images.expand(-1, {wide.shape[1]}, -1, -1) if grey is meant"
    )


def check_layout(images: object, channels: int | None) -> None:
    """Raise ``ValueError`` for pictures with their colours last; ``channels``: what a model takes.

    >>> check_layout(torch.zeros(2, 32, 32, 3), channels=3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: images must be (B, C, H, W), got (2, 32, 32, 3), which looks like (B, H, W, C); ...
    """
    if not isinstance(images, Tensor) or images.ndim != 4:
        return
    last = images.shape[3] in _COLOURS and images.shape[1] > max(_COLOURS)
    if last and channels != images.shape[1]:
        raise ValueError(
            f"images must be (B, C, H, W), got {tuple(images.shape)}, which looks like "
            "(B, H, W, C); pass images.permute(0, 3, 1, 2)"
        )


def validate_input(images: object, device: torch.device, bad_input: str = "raise") -> ValidInput:
    """Check a batch and bring it to ``device`` as float.

    What is no batch of images at all is a ``ValueError`` in any case. Under ``mask`` a row with
    NaN, infinity or a value outside [0, 1] is mended and marked: NaN becomes 0.5, the rest is
    clamped. Under ``raise`` it is a ``ValueError`` like everything else.
    """
    masking = bad_input == "mask"
    x = as_float(check_images(images, finite=not masking).detach().to(device))
    x = x.clone() if x.is_inference() else x
    if not masking or (isinstance(images, Tensor) and images.dtype == torch.uint8):
        return ValidInput(x)
    bad = ~((x >= 0) & (x <= 1)).flatten(1).all(dim=1)  # (B,); NaN compares false
    if not bool(bad.any()):
        return ValidInput(x)
    return ValidInput(x.nan_to_num(nan=_NEUTRAL, posinf=1.0, neginf=0.0).clamp(0, 1), bad)
