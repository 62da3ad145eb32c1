"""LAME: leave the network alone and make neighbours in a batch agree.

Boudiaf et al., Parameter-free Online Test-time Adaptation, CVPR 2022. Numbers compared with
mariodoebler/test-time-adaptation, both affinities.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from multipool.core import lookup
from multipool.methods.adapter import Adapter
from multipool.ops import Graphed
from multipool.ops.laplacian import AFFINITIES, refine


@dataclass(frozen=True)
class LAMEConfig:
    """Defaults of the code that ran the PTTA tables; ``rbf`` is the other published affinity."""

    affinity: str = "knn"  # knn or rbf
    neighbours: int = 5  # k

    def __post_init__(self) -> None:
        lookup(AFFINITIES, self.affinity, "affinity of lame")
        if self.neighbours < 1:
            raise ValueError(f"neighbours must be at least 1, got {self.neighbours}")


class LAME(Adapter):
    """Refines the source model's probabilities within each batch; remembers nothing.

    Its logits are log max(Y, 1e-20) of the refined probabilities Y.
    """

    name = "lame"
    Config = LAMEConfig
    config: LAMEConfig

    def _build(self) -> None:
        self._forward = Graphed(self._pass, enabled=self.setup.graphs)

    def _pass(self, images: Tensor) -> tuple[Tensor, ...]:
        logits = self.network.plain(images)
        affinity = AFFINITIES[self.config.affinity](self.network.features(), self.config.neighbours)
        return (refine(logits, affinity).clamp_min(1e-20).log(),)

    def _predict(self, images: Tensor) -> Tensor:
        return self._forward(images)[0].clone()
