"""What multipool learns by gradients, if it is asked to: affine parameters that all pools share.

ROID's loss, on batches of a stream in random order, each under its own statistics; the pools then
normalise what they are asked about with theirs. Where classes come in runs a batch shows few of
them and teaches the wrong thing: there the steps become shorter, and end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from multipool.methods.multipool.rules import Ints, distinct
from multipool.methods.roid import diversity_weights, soft_likelihood_ratio
from multipool.ops import Branch, FlatAdam, Group, Network, batch, symmetric_cross_entropy

ENOUGH = 16  # images of a batch that has statistics of its own
_LEAST = 0.05  # of a step: a shorter one is not taken
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
        self._average = torch.full((num_classes,), 1 / num_classes, device=source.affine.device)

    def length(self, pools: Ints, degree: float) -> float:
        """Return the length, 0 to 1, of a step on images of these ``pools`` ``(B,)``; 0: none.

        ``degree``: how far classes come in runs.
        """
        fit = len(pools) >= ENOUGH and len(distinct(pools)) == 1
        return 1 - degree if fit and 1 - degree >= _LEAST else 0.0

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
