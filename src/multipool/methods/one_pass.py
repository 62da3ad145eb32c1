"""The loop of the methods that predict and learn in one forward pass of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from multipool.methods.adapter import Adapter
from multipool.ops import Branch, Graphed, Group, batch
from multipool.ops.optimise import FlatAdam, FlatOptimizer


class OnePass(Adapter):
    """Trains the affine parameters of normalisation layers under the batch's own statistics.

    The logits of the pass that learns are the prediction, so they come from before the update.
    ``seconds`` counts the one pass as adaptation. The config of a method over this base has
    ``lr``.
    """

    student: Branch
    optimizer: FlatOptimizer

    def _build(self) -> None:
        self.student = self.network.require_source(self.name).copy(trainable=True)
        self._train_values(self.student.affine)

    def _train_values(self, values: Tensor) -> None:
        """Make the optimiser of the flat vector ``values``, and keep what both change."""
        self.optimizer = self._make_optimizer(values)
        self._keep("student.affine", values)
        for name, tensor in self.optimizer.state.items():
            self._keep(f"optimizer.{name}", tensor)
        self._train = Graphed(self._train_pass, enabled=self.setup.graphs)
        self._peek = Graphed(self._peek_pass, enabled=self.setup.graphs)

    def _make_optimizer(self, values: Tensor) -> FlatOptimizer:
        return FlatAdam(values, self.config.lr)

    def _logits(self, images: Tensor) -> Tensor:
        """Return the student's logits ``(B, L)``."""
        return self.network.run(Group(images, self.student, batch))[0]

    def _gradient(self, loss: Tensor) -> Tensor:
        """Return d loss / d values, ``(P,)``."""
        return self.student.gradient(loss)

    def _loss(self, logits: Tensor) -> Tensor:
        """Return the loss of a batch of logits ``(B, L)``."""
        raise TypeError(f"{type(self).__name__} must have a _loss, or a _train_pass of its own")

    def _train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on ``images`` ``(B, C, H, W)``; return the loss and the logits."""
        logits = self._logits(images)
        loss = self._loss(logits)
        self.optimizer.step(self._gradient(loss))
        return (loss.detach(), logits.detach())

    def _update(self, images: Tensor) -> tuple[Tensor, ...]:
        """Run the training pass, with whatever it needs besides the images."""
        return self._train(images)

    def _output(self, logits: Tensor) -> Tensor:
        """Return what the caller gets for the network's logits."""
        return logits

    def _peek_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self._logits(images),)

    def _predict(self, images: Tensor) -> Tensor:
        return self._output(self._peek(images)[0].clone())

    def _step(self, images: Tensor) -> Tensor:
        found: list[Tensor] = []

        def update() -> Tensor:
            loss, logits = self._update(images)
            found.append(logits.clone())  # the next replay of a graph overwrites them
            return loss

        self._numbers["seen"] += len(images)
        with torch.enable_grad():
            self._learn(update)
        if not found:  # the update failed and the guard has undone it
            with self._timed("predict"), torch.no_grad():
                found.append(self._logits(images))
        return self._output(found[0])
