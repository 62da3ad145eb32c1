"""NOTE: instance-aware normalisation, and entropy minimised over a balanced reservoir.

Gong et al., NOTE: Robust Continual Test-time Adaptation Against Temporal Correlation, NeurIPS
2022. As run by TRIBE's release under PTTA: the layers are put into an ordinary source model (the
authors train theirs with them) and the loss is the plain mean entropy. Numbers compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from multipool.methods.memory_based import MemoryBased
from multipool.ops import FlatAdam, Graphed, Group, View, entropy, uncertainty
from multipool.ops.instance_aware import InstanceAware


@dataclass(frozen=True)
class NOTEConfig:
    """Settings of TRIBE's release for CIFAR; the authors' own ``lr`` is 1e-4."""

    lr: float = 1e-3
    threshold: float = 4.0  # k: standard errors by which an instance must deviate
    norm_rate: float = 0.01  # share of the memory batch in each statistics update
    update_every: int = 64  # samples, not batches
    samples: int = 64  # asked of the memory at each update


class _AsItIs(View):
    """No augmentation: NOTE trains on the stored images themselves."""

    def __call__(
        self, images: Tensor, parameters: np.random.Generator, noise: torch.Generator
    ) -> Tensor:
        return images


class NOTE(MemoryBased):
    """One network: predicts each image by itself, learns from the memory's."""

    name = "note"
    Config = NOTEConfig
    takes_memory: ClassVar[str | None] = "reservoir"
    config: NOTEConfig

    def _build(self) -> None:
        # Teacher and student are one; only the way they normalise differs.
        self.student = self.network.require_source(self.name).copy(trainable=True)
        self.teacher = self.student
        self.optimizer = FlatAdam(self.student.affine, self.config.lr)
        self._keep("student.affine", self.student.affine)
        self._keep("student.statistics", self.student.statistics)
        for name, tensor in self.optimizer.state.items():
            self._keep(f"optimizer.{name}", tensor)
        self.view = _AsItIs()
        self.reading = InstanceAware(self.config.threshold)
        self.training_norm = InstanceAware(self.config.threshold, self.config.norm_rate)
        self._forward_teacher = Graphed(self._teacher_pass, enabled=self.setup.graphs)
        self._train = Graphed(self._train_pass, enabled=self.setup.graphs)

    def _teacher_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        (logits,) = self.network.run(Group(images, self.student, self.reading))
        found = (logits, logits.argmax(dim=1), uncertainty(logits))
        return (*found, self.network.features()) if self._wants_features() else found

    def _train_pass(self, images: Tensor, view: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the mean entropy of the stored images."""
        (logits,) = self.network.run(Group(view, self.student, self.training_norm))
        loss = entropy(logits).mean()
        self.optimizer.step(self.student.gradient(loss))
        return (loss.detach(),)
