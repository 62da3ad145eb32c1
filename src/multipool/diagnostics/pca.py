"""The two directions in which a stream's descriptors vary most, for pictures (Fig. 1b, S2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.diagnostics.described import Given, describe


@dataclass(frozen=True)
class Plane:
    """A plane through descriptor space; axes that a stream does not have are zero."""

    middle: Tensor  # (D,)
    axes: Tensor  # (D, 2), orthonormal
    explained: tuple[float, float]  # share of the variance along each axis

    @classmethod
    def of(cls, stream: Given, descriptor: str = "pixel") -> Plane:
        """Return the plane of the first two principal components; signs are fixed."""
        points = describe(stream, descriptor)
        middle = points.mean(dim=0)
        _, sizes, rows = torch.linalg.svd(points - middle, full_matrices=False)
        axes = torch.zeros(points.shape[1], 2, dtype=torch.float64)
        found = rows[: min(2, len(rows))].T  # (D, 1 or 2)
        # The largest entry of an axis is positive: otherwise pictures may come out mirrored.
        largest = found.gather(0, found.abs().argmax(dim=0, keepdim=True))
        axes[:, : found.shape[1]] = found * largest.sign()
        power = sizes.square()
        shares = (power / power.sum().clamp(min=1e-300)).tolist()
        first, second = (*shares, 0.0, 0.0)[:2]
        return cls(middle, axes, (first, second))

    def project(self, points: Given, descriptor: str = "pixel") -> Tensor:
        """Return the places ``(S, 2)`` of samples or descriptors on the plane."""
        return (describe(points, descriptor) - self.middle) @ self.axes
