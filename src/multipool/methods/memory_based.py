"""The loop that RoTTA, PeTTA and ResiTTA share: a teacher predicts, a memory feeds the student."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.memory import MultiClusterMemory
from multipool.memory.pool import Pool
from multipool.methods.adapter import Adapter
from multipool.ops import Branch, FlatAdam, Graphed, Group, View, frozen, uncertainty


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


class MemoryBased(Adapter):
    """A mean teacher whose student learns from a memory of the stream.

    The config of a method over this base has ``lr``, ``teacher_rate``, ``update_every`` (samples)
    and ``samples`` (asked of the memory at each update).
    """

    student: Branch
    teacher: Branch
    optimizer: FlatAdam

    def _build(self) -> None:
        source = self.network.require_source(self.name)
        self.student, self.teacher = source.copy(trainable=True), source.copy()
        self.optimizer = FlatAdam(self.student.affine, self.config.lr)
        for name, branch in (("student", self.student), ("teacher", self.teacher)):
            self._keep(f"{name}.affine", branch.affine)
            self._keep(f"{name}.statistics", branch.statistics)
        for name, tensor in self.optimizer.state.items():
            self._keep(f"optimizer.{name}", tensor)
        self.view = View()
        graphs = self.setup.graphs
        self._forward_teacher = Graphed(self._teacher_pass, enabled=graphs)
        self._train = Graphed(self._train_pass, enabled=graphs)

    def _teacher_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return the teacher's eval-mode logits, pseudo-labels, uncertainty, perhaps features."""
        (logits,) = self.network.run(Group(images, self.teacher, frozen))
        found = (logits, logits.argmax(dim=1), uncertainty(logits))
        return (*found, self.network.features()) if self._wants_features() else found

    @abstractmethod
    def _train_pass(self, images: Tensor, view: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Take one step on memory images ``(M, C, H, W)`` and their view; return the loss."""

    def _extra(self, stored: Retrieved) -> tuple[Tensor, ...]:
        """Return further tensors of the stored samples that :meth:`_train_pass` needs."""
        return ()

    def _predict(self, images: Tensor) -> Tensor:
        self._latest = self._forward_teacher(images)
        # Graph outputs are overwritten by the next call; the caller keeps its logits.
        return self._latest[0].clone()

    def _adapt_soundly(self, images: Tensor, logits: Tensor) -> bool:
        """Learn from finite logits; tell whether they are, waiting for the device only once.

        Our banks refuse a doubt that is no number before they change anything, and find it in the
        copy to the host that they make anyway; by then the answer about the logits is there, too.
        """
        if not isinstance(self.memory, (Pool, MultiClusterMemory)):
            return super()._adapt_soundly(images, logits)
        self._question.ask(logits)
        try:
            with torch.enable_grad():
                self._adapt(images, logits)
        except ValueError:
            if self._question.fine(logits):
                raise
            self._offered = False  # the bank has refused the batch
        return self._question.fine(logits)

    def _adapt(self, images: Tensor, logits: Tensor) -> None:
        labels, doubt, *features = self._latest[1:]
        if self._question.asked is not None:
            doubt = doubt + 0 * self._question.asked  # NaN where a logit is not finite
        for piece in cuts(self._numbers["seen"], len(images), self.config.update_every):
            with self._timed("memory"):
                self._remember(images[piece], labels[piece], doubt[piece], features, piece)
            self._numbers["seen"] += piece.stop - piece.start
            if self._numbers["seen"] % self.config.update_every == 0:
                self._update()

    def _remember(
        self, images: Tensor, labels: Tensor, doubt: Tensor, features: list[Tensor], piece: slice
    ) -> None:
        """Give the samples to the bank; features only if it asks for them."""
        assert self.memory is not None  # the factory gives every memory method a bank
        wanted = features[0][piece] if self._wants_features() else None
        self._offered = True
        self.memory.add(images, uncertainty=doubt, labels=labels, features=wanted)

    def _wants_features(self) -> bool:
        """Tell whether the bank describes images by the network's features."""
        return getattr(getattr(self.memory, "options", None), "descriptor", None) == "feature"

    def _update(self) -> None:
        """Take samples from the bank and learn from them, unless it has none to give."""
        assert self.memory is not None
        with self._timed("memory"):
            stored = self.memory.retrieve(self.config.samples)
        if len(stored) == 0:
            return
        # There are few updates, and each counts: NOTE loses a point by 5 of 100.
        self._learn(lambda: self._learn_from(stored), again=True)

    def _learn_from(self, stored: Retrieved) -> Tensor:
        images = self.network.prepare(stored.images.to(self.device))
        with torch.no_grad():
            view = self.network.prepare(self.view(images, self._draws, self._noise))
        return self._train(images, view, *self._extra(stored))[0]

    def _run(self, *groups: Group) -> list[Tensor]:
        """Run several passes, as one if the setup says so; the results are the same."""
        if self.setup.grouped:
            return self.network.run(*groups)
        return [self.network.run(group)[0] for group in groups]
