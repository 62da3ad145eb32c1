"""CoTTA: a mean teacher over augmented views, and weights that now and then go home.

Wang, Fink, Van Gool, Dai: Continual Test-Time Domain Adaptation, CVPR 2022. Numbers compared with
mariodoebler/test-time-adaptation, whose settings these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, Kept, Method, Prediction, Update, tensor_pass
from multipool.ops import Group, View, batch, soft_cross_entropy, symmetric_cross_entropy
from multipool.ops.flat import gradients
from multipool.ops.optimise import OPTIMIZERS
from multipool.ops.weights import Weights

LOSSES = ("ce", "sce")
_AT_ONCE = 8  # views of one pass, each under its own statistics


@dataclass(frozen=True)
class CoTTAConfig:
    """Published settings for CIFAR-100-C."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    confidence: float = 0.72  # below it (the source's mean, this batch) the teacher sees views
    views: int = 32  # random views of an unsure image, averaged
    teacher_rate: float = 1e-3  # share of the student in each teacher update
    restore_rate: float = 0.01  # share of the student's weights that goes back at each update
    loss: str = "ce"  # ce: to the teacher's prediction; sce: symmetric

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of cotta")
        lookup(dict.fromkeys(LOSSES), self.loss, "loss of cotta")
        if self.views < 1:
            raise ValueError(f"cotta's views must be at least 1, got {self.views}")


class CoTTA(Method):
    """The teacher predicts; all weights of the student learn, some return to the source.

    A slow copy of the network, the teacher, answers; on images of which the source model is
    unsure it averages over random views. The student learns the teacher's answers with all its
    weights, of which a random few return to the source at every step.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`CoTTAConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "cotta")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Wang, Fink, Van Gool, Dai: Continual Test-Time Domain Adaptation, CVPR 2022.
    """

    name = "cotta"
    normalises_by = "batch"
    Config = CoTTAConfig
    expensive = True  # its many views
    view = View()

    def __init__(self, context: Context, config: CoTTAConfig) -> None:
        super().__init__(context, config)
        self.student = Weights(self.network, method=self.name, trainable=True)
        self.teacher = Weights(self.network, method=self.name)
        self.start = self.student.values.clone()
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.values, config.lr)

    def keeps(self) -> Kept:
        """Return both networks' weights and the optimiser's state."""
        return {
            "student.values": self.student.values,
            "teacher.values": self.teacher.values,
            "optimizer": self.optimizer,
        }

    def predict(self, images: Tensor) -> Prediction:
        """Return the teacher's logits ``(B, L)``, averaged over views where the source doubts."""
        (confidence,) = self._anchor_pass(images)
        if float(confidence) >= self.config.confidence:
            return Prediction(self._teacher_pass(images)[0])
        views, total = self.config.views, torch.zeros((), dtype=torch.float32, device=self.device)
        for start in range(0, views, _AT_ONCE):
            drawn = [self.augmented(images) for _ in range(min(_AT_ONCE, views - start))]
            total = total + self._teacher_pass(*drawn)[0]
        return Prediction(total / views)

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Learn what the teacher said of this batch."""
        yield partial(self._update, images, prediction.logits)

    def _update(self, images: Tensor, target: Tensor) -> Tensor:
        (loss,) = self._train_pass(images, target)
        # After the teacher's update, which sees the restored weights one batch later.
        rate = self.config.restore_rate
        stochastic_restore(self.student.values, self.start, rate, self.noise)
        return loss

    @tensor_pass
    def _anchor_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return how sure the source network is of this batch, on average."""
        (logits,) = self.network.run(Group(images, self.network.origin, batch))
        return (logits.softmax(dim=1).amax(dim=1).mean(),)

    @tensor_pass
    def _teacher_pass(self, *views: Tensor) -> tuple[Tensor, ...]:
        """Return the sum of the teacher's logits over the views, ``(B, L)``."""
        return (torch.stack(self.teacher.run(*views)).sum(dim=0),)

    @tensor_pass
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


@torch.no_grad()
def stochastic_restore(
    values: Tensor, source: Tensor, rate: float, generator: torch.Generator
) -> None:
    """Set each element to that of ``source`` with probability ``rate``, in place (Sec. 3.3).

    >>> values = torch.ones(3)
    >>> stochastic_restore(values, torch.zeros(3), 1.0, torch.Generator())
    >>> values
    tensor([0., 0., 0.])
    """
    draws = torch.rand(values.shape, generator=generator, dtype=torch.float32, device=values.device)
    values.copy_(torch.where(draws < rate, source, values))
