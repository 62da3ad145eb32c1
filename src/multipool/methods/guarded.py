"""One batch from the door to its logits, and all that may go wrong with it on the way."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from multipool.memory import Memory
from multipool.methods.collapse import Verdict
from multipool.methods.door import Batch
from multipool.methods.finite import Question
from multipool.methods.guard import Guard
from multipool.methods.recovery import Recovery
from multipool.methods.setup import Setup
from multipool.ops import Network

_log = logging.getLogger("multipool")


class Guarded(nn.Module, ABC):
    """Answers every batch with finite logits, whatever becomes of the update.

    What fails or is not finite is undone, and the last good state predicts; predictions that
    collapse bring a good state back. Without a guard, a step is just a step.
    """

    setup: Setup
    network: Network
    _guard: Guard | None
    _recovery: Recovery | None
    _numbers: dict[str, int]
    _question: Question  # whether this batch's logits are finite
    _masked: int = 0  # images so far
    _offered: bool = False  # whether this batch has gone to the memory

    @property
    @abstractmethod
    def memory(self) -> Memory | None:
        """Return the bank, if there is one."""

    @abstractmethod
    def _predict(self, images: Tensor) -> Tensor: ...

    @abstractmethod
    def _step(self, images: Tensor) -> Tensor: ...

    @abstractmethod
    def _count_batch(self) -> None: ...

    @abstractmethod
    def _tell(self, loss: Tensor | None, event: str | None = None) -> None: ...

    def _answer(self, batch: Batch, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return logits ``(B, L)``: of good rows what ``answer`` says, of bad ones the source's."""
        if batch.bad is None:
            return answer(self.network.prepare(batch.images))
        good = ~batch.bad
        logits = batch.images.new_empty(len(good), self.setup.num_classes, dtype=torch.float32)
        if bool(good.any()):
            logits[good] = answer(self.network.prepare(batch.images[good]))
        with torch.no_grad():
            plain = self.network.plain(self.network.prepare(batch.images[batch.bad]))
        logits[batch.bad] = plain.nan_to_num()
        return logits

    def _advance(self, images: Tensor) -> Tensor:
        """Predict, learn, and count the batch."""
        logits = self._step(images) if self._guard is None else self._protected(images, self._guard)
        self._count_batch()
        return logits

    def _protected(self, images: Tensor, guard: Guard, *, again: bool = True) -> Tensor:
        """Predict and learn; whatever breaks on the way is undone, and a prediction returned.

        A batch that broke before the memory had it is given a second chance: from the last good
        state what broke once need not break twice.
        """
        numbers = dict(self._numbers)
        self._question.forget()
        self._offered = False
        resting = self._resting()
        try:
            logits = self._rest(images) if resting else self._step(images)
            sound = self._question.fine(logits)
        except Exception as error:
            self._numbers = numbers
            if isinstance(error, ValueError):  # the caller's mistake: as if it had not come
                guard.undo()
                raise
            guard.failed(error)
            return self._second_chance(images, guard, again)
        except BaseException:
            self._numbers = numbers
            guard.undo()
            raise
        if not sound:
            guard.undo()
            if not self._offered:
                self._numbers = numbers
            return self._second_chance(images, guard, again)
        guard.close()
        return logits if resting else self._oversee(images, logits, guard)

    def _second_chance(self, images: Tensor, guard: Guard, first: bool) -> Tensor:
        """Try a batch again, if it was tried once and the memory has not had it; else predict."""
        if not first:
            guard.forgive()
        else:
            self._tell(None, "skipped")
            if not self._offered:
                return self._protected(images, guard, again=False)
        return self._rescue(images)

    def _resting(self) -> bool:
        """Tell whether learning rests, for a while after a collapse."""
        recovery = self._recovery
        return recovery is not None and recovery.resting(self._numbers["batches"])

    @torch.no_grad()
    def _rest(self, images: Tensor) -> Tensor:
        """Predict without learning."""
        source = self.setup.fallback == "source"
        return self.network.plain(images) if source else self._predict(images)

    @torch.no_grad()
    def _glance(self, images: Tensor) -> Tensor:
        """Return what a call would return, and learn nothing."""
        logits = self._rest(images) if self._resting() else self._predict(images)
        if self._guard is None or bool(logits.isfinite().all()):
            return logits
        self._guard.undo()
        return self._rescue(images)

    @torch.no_grad()
    def _rescue(self, images: Tensor) -> Tensor:
        """Return finite logits: of the state as it is, else of the source model."""
        try:
            logits = self._predict(images)
            if bool(logits.isfinite().all()):
                return logits
        except ValueError:  # the caller's mistake
            raise
        except Exception as error:  # a view that never comes, a pass that never fits
            _log.warning("the source model answers: %s: %s", type(error).__name__, error)
        return self.network.plain(images).nan_to_num()

    def _oversee(self, images: Tensor, logits: Tensor, guard: Guard) -> Tensor:
        """Look for a collapse now and then; after one, answer from the state gone back to."""
        recovery = self._recovery
        if recovery is None or not recovery.due(self._numbers["batches"]):
            return logits
        try:
            verdict = self._compare(images, logits, guard, recovery)
        except Exception as error:  # the batch has been answered and learned from already
            _log.warning("a look was given up: %s: %s", type(error).__name__, error)
            return logits
        if not verdict.collapsed:
            return logits
        self._go_back(verdict, recovery)
        guard.accept()
        with torch.no_grad():
            return self._rest(images)

    @torch.no_grad()
    def _compare(self, images: Tensor, logits: Tensor, guard: Guard, recovery: Recovery) -> Verdict:
        """Predict the batch from the state before any learning, too, and judge."""
        recovery.go_home()
        try:
            home = self._predict(images)
        finally:
            guard.undo()
        return recovery.probe(logits, home, self._numbers["batches"], self._numbers["seen"])

    def _go_back(self, verdict: Verdict, recovery: Recovery) -> None:
        """Restore a good state, empty the memory of what a collapsed model has sorted, say so."""
        to_source = self.setup.fallback == "source"
        name, seen = recovery.restore(self._numbers["batches"], source=to_source)
        self._numbers["seen"] = seen
        if self.memory is not None:
            self.memory.clear()
        _log.warning(
            "batch %d: predictions collapsed (%.0f %% of the classes and %.0f %% of the entropy "
            "left); went back to %s and learn nothing for %d batches",
            self._numbers["batches"] + 1,
            100 * min(verdict.diversity, verdict.ruin),
            100 * verdict.certainty,
            name,
            recovery.rest(self._numbers["batches"]),
        )
        self._tell(None, "restored")
