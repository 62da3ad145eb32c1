"""The first convolution of a model, whose output two passes over the same image may share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_SMALL = 2**18  # values of an output that is worth keeping for a moment: an image or a few


@dataclass(frozen=True)
class _Kept:
    """What the convolution was given and what came out, until somebody changes that in place."""

    x: Tensor
    out: Tensor
    version: int

    def is_for(self, x: Tensor) -> bool:
        return self.out._version == self.version and torch.equal(self.x, x)


class FirstConvolution(nn.Conv2d):
    """A convolution that remembers its output for one more pass, while ``keeping``.

    Everything before a model's first normalisation layer is the same whatever the statistics; where
    an image comes alone, that convolution is a tenth of a pass.
    """

    keeping = False
    kept: _Kept | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of ``x``, or what it was a moment ago."""
        kept, self.kept = self.kept, None
        if kept is not None and kept.is_for(x):
            return kept.out
        out = super().forward(x)
        if self.keeping and out.numel() <= _SMALL:
            self.kept = _Kept(x, out, out._version)
        return out

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle without what the last pass left."""
        return {**self.__dict__, "keeping": False, "kept": None}


def first_convolution(body: nn.Module) -> list[FirstConvolution]:
    """Return the first convolution of a model, made one that remembers; none: it has none such.

    Parameters, names and results stay as they are.
    """
    found = next((m for m in body.modules() if isinstance(m, nn.Conv2d)), None)
    if type(found) is not nn.Conv2d:  # somebody's own kind has a forward of its own
        return []
    found.__class__ = FirstConvolution
    return [found]  # type: ignore[list-item]


@contextmanager
def keeping(convolutions: Sequence[FirstConvolution], *, enabled: bool) -> Iterator[None]:
    """Let convolutions remember what comes out of them in here."""
    for convolution in convolutions:
        convolution.keeping = enabled
    try:
        yield
    finally:
        for convolution in convolutions:
            convolution.keeping = False
