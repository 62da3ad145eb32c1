"""The adapter: a method behind one callable that predicts, learns, and can be saved at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multipool.core import numpy_generator, torch_generator
from multipool.decode import SequenceDecoder
from multipool.engine.bank import WatchedBank
from multipool.engine.describe import describe
from multipool.engine.guard import Guard
from multipool.engine.method import Context, Method
from multipool.engine.modes import own_modes
from multipool.engine.module import WholeModule
from multipool.engine.observers import Facts, Observers
from multipool.engine.precision import network_for
from multipool.engine.recovery import Recovery, probe_interval
from multipool.engine.saving import digest, write_state
from multipool.engine.setup import AUTO, Setup
from multipool.engine.source import SourceData
from multipool.engine.state import State
from multipool.engine.stepper import Early, Stepper
from multipool.engine.validate import Entrance
from multipool.memory import Memory
from multipool.ops import Network


class Adapter(WholeModule):
    """A classifier that keeps learning from the unlabelled images it is asked about.

    It has a :class:`Method`, and does for it what is the same for all: checks input, guards,
    counts, tells observers, saves and resets. The given model is copied and never changed.

    As a module it has no parameters for others to train, and ``train()`` and ``eval()`` change
    nothing that it does: each pass says for itself how it normalises. To predict without learning
    call :meth:`predict`. Inside another module its state is part of that module's state dict; it
    can be deep-copied and pickled; it stays on the device of its model.

    Made by :func:`multipool.adapt`; what can be read from it: ``pools``, ``memory``, ``estimate``,
    ``undecoded``, ``counts``.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "tent")
        >>> logits = adapter(random_images(8))  # predicts (8, 5), then learns
        >>> adapter.counts["updates"]
        1
        >>> adapter.reset()  # the source model again
    """

    def __init__(
        self,
        kind: type[Method],
        model: nn.Module,
        config: Any,  # noqa: ANN401
        setup: Setup,
        bank: Memory | None = None,
        source: object = None,
    ) -> None:
        super().__init__()
        self.config, self.setup = config, setup
        if not isinstance(model, Network):
            model = network_for(kind, model, setup)
        self.device = model.device()
        self.seconds = {"predict": 0.0, "memory": 0.0, "adapt": 0.0}
        self._lock = model.lock  # shared with other adapters over the same frozen weights
        self.notes: dict[str, Any] = {}  # the user's own, kept in the file; anything that is JSON
        # Not a submodule: its frozen weights are the user's, and no part of the adapter's state.
        self.method = kind(
            Context(
                network=model,
                num_classes=setup.num_classes,
                bank=None if bank is None else WatchedBank(bank, self.seconds),
                source=SourceData(source, model, setup.num_classes, setup.seed, kind.name),
                draws=numpy_generator(setup.seed, "draws", kind.name),
                noise=torch_generator(setup.seed, self.device),
                numbers={"seen": 0, "updates": 0, "batches": 0},
                graphs=setup.graphs,
            ),
            config,
        )
        for replayed in self.method.passes:
            replayed.forget()  # what was recorded to build is not needed to run
        self._enter = Entrance(self.method, setup.bad_input)
        self.state = State(self.method)
        tensors, every = self.state.tensors, probe_interval(self.method)
        self.guard = Guard(tensors, self.device, setup.graphs) if setup.guard else None
        if setup.guard and tensors and every:
            self.state.recovery = Recovery(tensors, setup.num_classes, every)
        masking = setup.bad_input == "mask"
        self.decoder = SequenceDecoder(setup.num_classes) if setup.decode == "sequence" else None
        if self.decoder is not None:
            self.state.companions["decoder"] = self.decoder
        self._observers = Observers(self.state, self.guard, masking=masking)
        self.stepper = Stepper(
            self.method,
            self.guard,
            self.state.recovery,
            self._observers,
            self.seconds,
            fallback=setup.fallback,
            graphs=setup.graphs,
            decoder=self.decoder,
        )
        self._initial = self.state.snapshot()
        # How many batches until it starts anew; the user's wish goes before the method's own.
        self._period = setup.reset_every or getattr(config, "reset_every", None)

    # What users call ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.name

    @property
    def network(self) -> Network:
        """The frozen copy of the model that all passes run through."""
        return self.method.network

    @property
    def memory(self) -> Memory | None:
        """The bank, if the method has one."""
        return self.state.memory

    @property
    def pools(self) -> list[Any]:
        """The pools in the order of their creation, where the method keeps pools."""
        return list(getattr(self.method, "pools", list)())

    @property
    def estimate(self) -> float | None:
        """Expected accuracy over the last samples, without labels; None without a decoder."""
        return None if self.decoder is None else self.decoder.estimate

    @property
    def undecoded(self) -> Tensor | None:
        """The last logits ``(B, L)`` before the decoder; of masked batches the good rows."""
        return self.stepper.undecoded

    @property
    def nbytes(self) -> int:
        """Bytes of all that is this adapter's own, as far as tensors and arrays go.

        What it has now and what a reset goes back to; not the frozen weights, which others may
        share.
        """
        banks = sum(int(getattr(bank, "nbytes", 0)) for bank in self.state.banks.values())
        return banks + 2 * sum(tensor.nbytes for tensor in self._initial.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many updates were made and undone, and how often it was restored.

        With ``bad_input="mask"`` also how many images were masked.
        """
        return self._observers.counts()

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of ``images``, in float32, then learn from them.

        Args:
            images: float ``(B, C, H, W)`` in [0, 1], or uint8.
        """
        with own_modes(self.device), self._lock:
            given = self._enter(images)
            if given.bad is not None:  # the stepper sees some of the rows only
                self.stepper.early = None
            logits = given.answer(self._advance, self.network)
            if given.bad is not None:
                self._observers.note_masked(int(given.bad.sum()))
            self._observers.deliver()
            return logits

    def step(self, images: Tensor, early: Early | None = None) -> Tensor:
        """Do what calling the adapter does: predict, then learn.

        Args:
            images: float ``(B, C, H, W)`` in [0, 1], or uint8.
            early: is called with the logits, and :attr:`estimate` after them, as soon as they are
                known, before anything is learned; not where learning may still change them, as a
                collapse does. It must not raise.
        """
        with self._lock:
            self.stepper.early = early
            try:
                return self(images)
            finally:
                self.stepper.early = None

    def predict(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` that a call would return now, and learn nothing."""
        with own_modes(self.device), self._lock, torch.no_grad():
            given = self._enter(images)
            return given.answer(self.stepper.look, self.network)

    def observe(self, callback: Callable[[Facts], None]) -> Callable[[], None]:
        """Call ``callback`` with the facts of every update; return a function that ends it.

        What the guard does is told too, with an ``event``: ``skipped``, ``restored``, ``masked``.
        """
        return self._observers.add(callback)

    def reset(self) -> None:
        """Go back to the source model and an empty memory, as when the adapter was made."""
        with self._lock:
            self.restore(self._initial)
            self.seconds.update(dict.fromkeys(self.seconds, 0.0))

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file, atomically; see :func:`multipool.load`."""
        write_state(path, self.snapshot(), self.recipe())

    def recipe(self) -> dict[str, Any]:
        """Return what a file says besides the state: how to make the adapter again."""
        return {
            "method": self.name,
            "options": asdict(self.config),
            "model": self.fingerprint(),
            "notes": dict(self.notes),
            **self.setup.saved(),
        }

    def fingerprint(self) -> str:
        """Return a checksum of the source model, by which a saved state knows its model."""
        known, rounded = self.network.known_as, self.setup.precision == AUTO
        if rounded not in known:  # frozen weights: asked for once, also by many adapters
            known[rounded] = digest(self.network.fingerprint(rounded=rounded))
        return known[rounded]

    # What torch calls ---------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Tensor]:
        """Return everything that moves as one flat dict of tensors: copies, on the CPU."""
        with self._lock:
            return self.state.snapshot()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put a snapshot back, or raise ``ValueError`` and stay as it was."""
        with self._lock:
            self.state.restore(state)
            if self.guard is not None:
                self.guard.accept()

    def fixed(self) -> Iterable[Tensor]:
        """Return the frozen weights, by which it is seen that the adapter would be moved."""
        return self.network.parameters()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by what it is made of, and its state."""
        with self._lock:
            method, bank = self.method, self.memory
            parts = (type(method), self.network, self.config, self.setup, bank, method.source.given)
            return _remake, (type(self), parts, self._initial, self.state.snapshot())

    def extra_repr(self) -> str:
        """Name the method, its bank and how full that is."""
        return describe(self.method, self.setup, self.memory)

    # What the parts share -----------------------------------------------------------------------

    def _advance(self, images: Tensor) -> Tensor:
        """Take a step; the one that completes a period of ``reset_every`` ends in a reset.

        Everything learned goes, the memory too (methods.md 5.9); the random draws and the number
        of updates go on, so that no period repeats the one before.
        """
        logits = self.stepper.advance(images)
        if self._period is not None and self.method.numbers["batches"] >= self._period:
            going_on = ("generator.draws", "generator.noise", "number.updates")
            now = self.state.snapshot()
            self.restore({**self._initial, **{name: now[name] for name in going_on}})
        return logits


def _remake(
    kind: type[Adapter],
    parts: tuple[Any, ...],
    initial: dict[str, Tensor],
    state: dict[str, Tensor],
) -> Adapter:
    """Return the adapter that :meth:`Adapter.__reduce__` took apart."""
    with own_modes(parts[1].device()):
        adapter = kind(*parts)
    adapter.load_state_dict(state)
    adapter._initial = initial
    return adapter
