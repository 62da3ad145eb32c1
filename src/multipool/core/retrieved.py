"""What a bank hands back for adaptation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Retrieved:
    """Samples of a bank, one row each; images on the bank's device, the rest on the host.

    ``ages`` count samples of the stream: the newest is 1. Losses divide them by the capacity.
    """

    images: Tensor  # (M, C, H, W) float in [0, 1]
    ages: Tensor  # (M,) int64
    uncertainty: Tensor  # (M,) float64, nats
    labels: Tensor  # (M,) int64, -1: unknown
    clusters: Tensor  # (M,) int64, position of the cluster in the creation sequence; 0 for pools

    def __len__(self) -> int:
        return len(self.images)
