"""One batch from its images to its logits, and all that may go wrong with it on the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from multipool.decode import SequenceDecoder
from multipool.engine.collapse import Verdict
from multipool.engine.decoding import Decoding
from multipool.engine.guard import Guard, is_finite
from multipool.engine.method import Method, Update
from multipool.engine.observers import Observers
from multipool.engine.prediction import Prediction
from multipool.engine.recovery import Recovery

_log = logging.getLogger("multipool")
Early = Callable[[Tensor, float | None], None]  # is told an answer and the estimate after it


class Stepper:
    """Takes a method through a batch: predicts, learns, counts.

    With a guard every batch is answered with finite logits, whatever becomes of the update: what
    fails or is not finite is undone, and the last good state predicts; predictions that collapse
    bring a good state back. Without one, a step is just a step. Times go into ``seconds``.
    """

    def __init__(
        self,
        method: Method,
        guard: Guard | None,
        recovery: Recovery | None,
        observers: Observers,
        seconds: dict[str, float],
        *,
        fallback: str,
        graphs: bool,
        decoder: SequenceDecoder | None = None,
    ) -> None:
        self._decoding = Decoding(decoder)
        self.early: Early | None = None  # who is told the next answer before it is learned from
        self.undecoded: Tensor | None = None  # logits of the last batch, before the decoder
        self.method, self.guard, self.recovery = method, guard, recovery
        self._observers, self._seconds = observers, seconds
        self._numbers = method.numbers
        self._to_source = fallback == "source"
        # A replay overwrites what the one before it returned: the caller gets logits of its own.
        self._overwritten = graphs and method.device.type == "cuda"

    def advance(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of prepared images, learn from them, count the batch."""
        logits = self._step(images)[0] if self.guard is None else self._guarded(images, self.guard)
        self._numbers["batches"] += 1
        self.undecoded = logits
        return self._decoding.go_on(logits)  # only here the decoder does

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """Return the logits that :meth:`advance` would return now, and change nothing."""
        return self._decoding.look(self._raw_look(images))

    def _raw_look(self, images: Tensor) -> Tensor:
        logits = self._rest(images) if self._resting() else self._without_draws(images)
        if self.guard is None or bool(logits.isfinite().all()):
            return logits
        self.guard.undo()
        return self._rescue(images)

    # A step ------------------------------------------------------------------------------------

    def _step(self, images: Tensor) -> tuple[Tensor, bool]:
        """Predict and learn; return the logits and, with a guard, whether they are finite."""
        if self.method.one_pass:
            logits = self._in_one_pass(images)
            return logits, self.guard is None or is_finite(logits)
        with self._timed("predict"), torch.no_grad():
            prediction = self._predict(images)
        known = self.guard is None or self._decoding.knows(prediction.logits)
        if self.guard is not None and not known and not is_finite(prediction.nearest):
            self.guard.skip()  # nothing is learned from what is no prediction
            return prediction.logits, False
        self._tell(prediction.logits)
        with self._timed("predict"), torch.no_grad():
            prediction = self._decoding.labelled(prediction)
        seen = self._numbers["seen"] + len(images)
        with torch.enable_grad():
            for update in self.method.learn(images, prediction):
                self._run(update)
        self._numbers["seen"] = seen
        return prediction.logits, True

    def _in_one_pass(self, images: Tensor) -> Tensor:
        """Learn, and return the logits that the pass made before its step."""
        found: list[Tensor] = []

        def update() -> Tensor:
            loss, logits = self.method.train(images)
            found.append(self._own(logits))
            return loss

        self._numbers["seen"] += len(images)
        with torch.enable_grad():
            self._run(update)
        if not found:  # the update failed and the guard has undone it
            with self._timed("predict"), torch.no_grad():
                return self._predict(images).logits
        return found[0]

    def _predict(self, images: Tensor) -> Prediction:
        """Ask the method, and the decoder."""
        prediction = self.method.predict(images)
        if self._overwritten:
            prediction = replace(prediction, logits=self._own(prediction.logits))
        if self._decoding.decoder is None:
            return prediction
        # The decoder works on the host, and what it says goes to banks that decide there, too.
        on_host = prediction.host_logits()
        if on_host is not prediction.on_host:
            prediction = replace(prediction, on_host=on_host)
        if is_finite(on_host):
            self._decoding.look_ahead(prediction)
        return prediction

    def _tell(self, logits: Tensor) -> None:
        """Tell who wants it early what the caller will get, unless a look may still change it."""
        recovery, early = self.recovery, self.early
        if early is None or (recovery is not None and recovery.due(self._numbers["batches"])):
            return
        self.early = None  # a batch that is tried again has been answered
        early(*self._decoding.shown(logits))

    def _own(self, logits: Tensor) -> Tensor:
        return logits.clone() if self._overwritten else logits

    def _run(self, update: Update) -> None:
        """Run one update; with a guard it is undone if it fails or is not finite."""
        with self._timed("adapt"):
            if self.guard is None:
                loss: Tensor | None = update()
            else:
                loss = self.guard.run(update, again=self.method.few_updates)
        self._numbers["updates"] += 1
        self._observers.note(loss)

    # A guarded step ----------------------------------------------------------------------------

    def _guarded(self, images: Tensor, guard: Guard, *, again: bool = True) -> Tensor:
        """Predict and learn; whatever breaks on the way is undone, and a prediction returned.

        A batch that broke before a bank had it is given a second chance: from the last good state
        what broke once need not break twice.
        """
        numbers, banks = dict(self._numbers), self.method.banks().values()
        for bank in banks:
            bank.offered = False
        resting = self._resting()
        try:
            if resting:
                logits = self._rest(images)
                finite = is_finite(logits)
            else:
                logits, finite = self._step(images)
        except Exception as error:
            self._numbers.update(numbers)
            if isinstance(error, ValueError):  # the caller's mistake: as if it had not come
                guard.undo()
                raise
            guard.failed(error)
            return self._second_chance(images, guard, again)
        except BaseException:
            self._numbers.update(numbers)
            guard.undo()
            raise
        if not finite:
            guard.undo()
            if not any(bank.offered for bank in banks):
                self._numbers.update(numbers)
            return self._second_chance(images, guard, again)
        guard.close()
        return logits if resting else self._oversee(images, logits, guard)

    def _second_chance(self, images: Tensor, guard: Guard, first: bool) -> Tensor:
        """Try a batch again, if it was tried once and no bank has had it; else predict."""
        if not first:
            guard.forgive()
        else:
            self._observers.note(None, "skipped")
            if not any(bank.offered for bank in self.method.banks().values()):
                return self._guarded(images, guard, again=False)
        return self._rescue(images)

    @torch.no_grad()
    def _rescue(self, images: Tensor) -> Tensor:
        """Return finite logits: of the state as it is, else of the source model."""
        try:
            logits = self._without_draws(images)
            if bool(logits.isfinite().all()):
                return logits
        except ValueError:  # the caller's mistake
            raise
        except Exception as error:  # a view that never comes, a pass that never fits
            _log.warning("the source model answers: %s: %s", type(error).__name__, error)
        return self.method.network.plain(images).nan_to_num()

    def _without_draws(self, images: Tensor) -> Tensor:
        """Predict and put both generators back: looking must not change what a call returns."""
        method = self.method
        draws, noise = method.draws.bit_generator.state, method.noise.get_state()
        try:
            return self._predict(images).logits
        finally:
            method.draws.bit_generator.state = draws
            method.noise.set_state(noise)

    # Collapse and rest -------------------------------------------------------------------------

    def _resting(self) -> bool:
        """Tell whether learning rests, for a while after a collapse."""
        return self.recovery is not None and self.recovery.resting(self._numbers["batches"])

    @torch.no_grad()
    def _rest(self, images: Tensor) -> Tensor:
        """Predict without learning."""
        return self.method.network.plain(images) if self._to_source else self._without_draws(images)

    def _oversee(self, images: Tensor, logits: Tensor, guard: Guard) -> Tensor:
        """Look for a collapse now and then; after one, answer from the state gone back to."""
        recovery = self.recovery
        if recovery is None or not recovery.due(self._numbers["batches"]):
            return logits
        try:
            verdict = self.compare(images, logits, guard, recovery)
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
    def compare(self, images: Tensor, logits: Tensor, guard: Guard, recovery: Recovery) -> Verdict:
        """Predict the batch from the state before any learning, too, and judge."""
        recovery.go_home()
        try:
            home = self._without_draws(images)
        finally:
            guard.undo()
        return recovery.probe(logits, home, self._numbers["batches"], self._numbers["seen"])

    def _go_back(self, verdict: Verdict, recovery: Recovery) -> None:
        """Restore a good state, empty the banks of what a collapsed model has sorted, say so."""
        batches = self._numbers["batches"]
        name, self._numbers["seen"] = recovery.restore(batches, source=self._to_source)
        for watched in self.method.banks().values():
            watched.bank.clear()
        classes, entropy = 100 * min(verdict.diversity, verdict.ruin), 100 * verdict.certainty
        _log.warning(
            "batch %d: predictions collapsed (%.0f %% of the classes and %.0f %% of the entropy "
            "left); went back to %s and learn nothing for %d batches",
            *(batches + 1, classes, entropy, name, recovery.rest(batches)),
        )
        self._observers.note(None, "restored")

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[part] += time.perf_counter() - start
