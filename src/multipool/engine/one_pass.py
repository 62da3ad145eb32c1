"""The base of methods that predict and learn in one forward pass of the batch."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from multipool.engine.method import Kept, Method, tensor_pass
from multipool.engine.prediction import Prediction
from multipool.ops import Branch, Group, batch
from multipool.ops.optimise import FlatOptimizer


class OnePass(Method):
    """Trains the affine parameters of normalisation layers under the batch's own statistics.

    The logits of the pass that learns are the prediction, so they come from before the update. A
    method over this base makes its student and the student's optimiser in ``__init__``.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, an instance of the class's ``Config``.
    """

    one_pass = True
    needs_norm = "affine"
    normalises_by = "batch"
    student: Branch
    optimizer: FlatOptimizer

    def keeps(self) -> Kept:
        """Return the trained parameters and the optimiser's state."""
        return {"student.affine": self.optimizer.values, "optimizer": self.optimizer}

    def predict(self, images: Tensor) -> Prediction:
        """Return what :meth:`train` would, and learn nothing."""
        return Prediction(self._look_pass(images)[0])

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step; return its loss and the logits ``(B, L)`` from before it."""
        loss, logits = self.train_pass(images)
        return loss, logits

    def logits(self, images: Tensor) -> Tensor:
        """Return the student's logits ``(B, L)``."""
        return self.network.run(Group(images, self.student, batch))[0]

    @abstractmethod
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on ``images`` ``(B, C, H, W)``; return the loss and the logits."""

    @tensor_pass
    def _look_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.logits(images),)
