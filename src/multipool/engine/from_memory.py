"""The base of methods that learn from a memory of the stream, every so many samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial

from torch import Tensor

from multipool.core import Retrieved
from multipool.engine.method import Method, Update, tensor_pass
from multipool.engine.prediction import Prediction
from multipool.ops import uncertainty
from multipool.ops.padding import filled


def cuts(seen: int, count: int, every: int) -> Iterator[slice]:
    """Yield slices of a batch of ``count``, cut where an update falls due.

    >>> [(s.start, s.stop) for s in cuts(seen=40, count=64, every=64)]
    [(0, 24), (24, 64)]
    """
    start = 0
    while start < count:
        stop = min(count, start + every - (seen + start) % every)
        yield slice(start, stop)
        start = stop


class FromMemory(Method):
    """Predicts, gives what it predicted to a bank, and learns from what the bank hands back.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options; among them ``update_every`` (samples) and ``samples`` (asked of the
            bank at each update).
    """

    needs_norm = "affine"
    normalises_by = "kept"
    few_updates = True  # NOTE loses a point by 5 of 100

    @abstractmethod
    def logits(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` that the stream is answered with."""

    @abstractmethod
    def update(self, stored: Retrieved) -> Tensor:
        """Take one step on stored samples; return the loss."""

    def remember(self, images: Tensor, prediction: Prediction) -> None:
        """Give samples to the bank."""
        self.bank.add(images, prediction)

    def predict(self, images: Tensor) -> Prediction:
        """Return logits, pseudo-labels and uncertainty, and features if somebody reads them."""
        return Prediction(*self._predict_pass(images))

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Fill the bank; yield an update wherever one falls due and the bank has samples."""
        for piece in cuts(self.numbers["seen"], len(images), self.config.update_every):
            self.remember(images[piece], prediction.rows(piece))
            self.numbers["seen"] += piece.stop - piece.start
            if self.numbers["seen"] % self.config.update_every == 0:
                stored = self.bank.retrieve(self.config.samples)
                if len(stored) > 0:
                    yield partial(self.update, stored)

    def filled(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return what goes into a pass over stored samples, on a GPU in one of a few sizes."""
        return filled(self.config.samples, *tensors)

    @tensor_pass
    def _predict_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        logits = self.logits(images)
        found = (logits, logits.argmax(dim=1), uncertainty(logits))
        if self.reads_features or self.bank.needs_features:
            return (*found, self.network.features())
        return found
