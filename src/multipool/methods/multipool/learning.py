"""What multipool learns by gradients: affine parameters that all pools share.

ROID's loss, on batches of a stream in random order, each under its own statistics; the pools then
normalise what they are asked about with theirs. Where classes come in runs a batch shows few of
them and teaches the wrong thing: there the steps become shorter, and end.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from multipool.methods.multipool.rules import Ints, distinct
from multipool.methods.roid import diversity_weights, soft_likelihood_ratio
from multipool.ops import Branch, FlatAdam, Group, Network, batch, symmetric_cross_entropy

_log = logging.getLogger("multipool")
ENOUGH = 16  # images of a batch that has statistics of its own
_LEAST = 0.05  # of a step: a shorter one is not taken
_PIXELS = 2**20  # learned from at once: their activations are kept for the gradient
_TEMPERATURE, _AVERAGE, _PULL = 1 / 3, 0.1, 0.01  # as in ROID's release


class Learning:
    """Affine parameters of all normalisation layers, and what moves them.

    Args:
        source: those of the model as it came.
        num_classes: L.
        lr: learning rate, of Adam.
    """

    def __init__(self, source: Branch, num_classes: int, lr: float) -> None:
        self.source, self.student = source, source.copy(trainable=True)
        self._optimizer = FlatAdam(self.student.affine, lr)
        even = torch.full((num_classes,), 1 / num_classes, dtype=torch.float32)
        self._average = even.to(source.affine.device)
        self._can: bool | None = None  # whether the model has gradients, once somebody has looked

    def some(self, images: Tensor) -> Tensor:
        """Return as many of the images ``(B, C, H, W)`` as may be learned from at once.

        Two passes of 64 images of 224 pixels a side would take ten gigabytes with a ResNet-50.
        """
        return images[: max(ENOUGH, _PIXELS // (images.shape[-2] * images.shape[-1]))]

    def can_learn(self, network: Network, images: Tensor) -> bool:
        """Return whether the model's answers have gradients; tried once, with two images.

        Statistics need none, so a model without them is served all the same.
        """
        if self._can is None:
            try:
                with torch.enable_grad():
                    (logits,) = network.run(Group(images[:2], self.student, batch))
                    self.student.gradient(logits.sum())
                self._can = True
            except (RuntimeError, ValueError) as error:
                self._can = False
                reason = str(error).partition("\n")[0]
                _log.warning("multipool learns nothing by gradients from this model: %s", reason)
        return self._can

    def length(self, pools: Ints, degree: float, even: float = 1.0) -> float:
        """Return the length, 0 to 1, of a step on images of these ``pools`` ``(B,)``; 0: none.

        ``degree``: how far classes come in runs; ``even``: how far a pool shows all of them.
        """
        length = (1 - degree) * even
        fit = len(pools) >= ENOUGH and len(distinct(pools)) == 1
        return length if fit and length >= _LEAST else 0.0

    @property
    def state(self) -> dict[str, Tensor]:
        """What moves, by name."""
        own = {"affine": self.student.affine, "average": self._average}
        return {**own, **self._optimizer.state}

    def step(self, network: Network, images: Tensor, view: Tensor, length: Tensor) -> Tensor:
        """Take a step of relative ``length`` ``()`` on images and their view; return the loss.

        L = mean w (SLR(z) + SCE(z', z)), w the weights by diversity and certainty, z' the logits of
        the view; then 1 % of the way back to the source.
        """
        (logits,) = network.run(Group(images, self.student, batch))
        (again,) = network.run(Group(view, self.student, batch))
        with torch.no_grad():
            weights = diversity_weights(logits, self._average, _TEMPERATURE)  # (B,)
        losses = soft_likelihood_ratio(logits) + symmetric_cross_entropy(again, logits)
        loss = (weights * losses).mean()
        gradient = self.student.gradient(loss)
        with torch.no_grad():
            before = self.student.affine.clone()
            self._optimizer.step(gradient)
            self.student.affine.copy_(before.lerp(self.student.affine, length))
            self.student.affine.lerp_(self.source.affine, _PULL)
            self._average.lerp_(logits.softmax(dim=1).mean(dim=0), _AVERAGE)
        return loss.detach()
