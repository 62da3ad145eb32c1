"""CoTTA: a mean teacher over augmented views, and weights that now and then go home.

Wang, Fink, Van Gool, Dai: Continual Test-Time Domain Adaptation, CVPR 2022. Numbers compared with
mariodoebler/test-time-adaptation, whose settings these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.methods.adapter import Adapter
from multipool.ops import (
    Graphed,
    Group,
    View,
    batch,
    soft_cross_entropy,
    symmetric_cross_entropy,
)
from multipool.ops.flat import gradients
from multipool.ops.optimise import OPTIMIZERS
from multipool.ops.restore import stochastic_restore
from multipool.ops.weights import Weights

LOSSES = ("ce", "sce")
_AT_ONCE = 8  # views of one pass, each under its own statistics


@dataclass(frozen=True)
class CoTTAConfig:
    """Published settings for CIFAR-100-C."""

    lr: float = 1e-3
    optimizer: str = "adam"  # or sgd
    confidence: float = 0.72  # below it (the source's mean, this batch) the teacher sees views
    views: int = 32
    teacher_rate: float = 1e-3  # share of the student in each teacher update
    restore_rate: float = 0.01  # share of the student's weights that goes back at each update
    loss: str = "ce"  # ce: to the teacher's prediction; sce: symmetric

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of cotta")
        lookup(dict.fromkeys(LOSSES), self.loss, "loss of cotta")
        if self.views < 1:
            raise ValueError(f"cotta's views must be at least 1, got {self.views}")


class CoTTA(Adapter):
    """The teacher predicts; all weights of the student learn, some return to the source."""

    name = "cotta"
    Config = CoTTAConfig
    watch_every = 64  # its many views make a look dear
    config: CoTTAConfig

    def _build(self) -> None:
        self.anchor = self.network.require_source(self.name)
        self.student = Weights(self.network, method=self.name, trainable=True)
        self.teacher = Weights(self.network, method=self.name)
        self.source = self.student.values.clone()
        self.optimizer = OPTIMIZERS[self.config.optimizer](self.student.values, self.config.lr)
        self._keep("student.values", self.student.values)
        self._keep("teacher.values", self.teacher.values)
        for name, tensor in self.optimizer.state.items():
            self._keep(f"optimizer.{name}", tensor)
        self.view = View()
        graphs = self.setup.graphs
        self._sure = Graphed(self._anchor_pass, enabled=graphs)
        self._teach = Graphed(self._teacher_pass, enabled=graphs)
        self._train = Graphed(self._train_pass, enabled=graphs)

    def _predict(self, images: Tensor) -> Tensor:
        with self._no_draws():
            return self._target(images)

    def _step(self, images: Tensor) -> Tensor:
        with self._timed("predict"), torch.no_grad():
            logits = self._target(images)
        with torch.enable_grad():
            self._learn(lambda: self._update(images, logits))
        self._numbers["seen"] += len(images)
        return logits

    def _target(self, images: Tensor) -> Tensor:
        """Return the teacher's logits ``(B, L)``, averaged over views where the source doubts."""
        (confidence,) = self._sure(images)
        if float(confidence) >= self.config.confidence:
            return self._teach(images)[0].clone()
        views, total = self.config.views, torch.zeros((), device=self.device)
        for start in range(0, views, _AT_ONCE):
            count = min(_AT_ONCE, views - start)
            drawn = [self.view(images, self._draws, self._noise) for _ in range(count)]
            total = total + self._teach(*(self.network.prepare(view) for view in drawn))[0]
        return total / views

    def _anchor_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return how sure the source network is of this batch, on average."""
        (logits,) = self.network.run(Group(images, self.anchor, batch))
        return (logits.softmax(dim=1).amax(dim=1).mean(),)

    def _teacher_pass(self, *views: Tensor) -> tuple[Tensor, ...]:
        """Return the sum of the teacher's logits over the views, ``(B, L)``."""
        return (torch.stack(self.teacher.run(*views)).sum(dim=0),)

    def _train_pass(self, images: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        """Take one step on the clean images; the teacher follows."""
        (logits,) = self.student.run(images)
        if self.config.loss == "ce":
            losses = soft_cross_entropy(logits, target.softmax(dim=1))
        else:
            losses = symmetric_cross_entropy(logits, target)
        loss = losses.mean()
        self.optimizer.step(*gradients(loss, self.student.flat))
        self.teacher.values.lerp_(self.student.values, self.config.teacher_rate)
        return (loss.detach(),)

    def _update(self, images: Tensor, target: Tensor) -> Tensor:
        (loss,) = self._train(images, target)
        # After the teacher's update, which sees the restored weights one batch later.
        rate = self.config.restore_rate
        stochastic_restore(self.student.values, self.source, rate, self._noise)
        return loss

    @contextmanager
    def _no_draws(self) -> Iterator[None]:
        """Put both generators back afterwards: looking must not change what a call returns."""
        draws, noise = self._draws.bit_generator.state, self._noise.get_state()
        try:
            yield
        finally:
            self._draws.bit_generator.state = draws
            self._noise.set_state(noise)
