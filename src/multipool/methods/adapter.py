"""The adapter that every method is: it predicts, then learns, and can be saved at any time."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from multipool.core import numpy_generator, numpy_state, restore_numpy, torch_generator
from multipool.memory import Memory
from multipool.methods.door import admit
from multipool.methods.finite import Question
from multipool.methods.guard import Guard
from multipool.methods.guarded import Guarded
from multipool.methods.recovery import Recovery
from multipool.methods.saving import check_state, digest, write_state
from multipool.methods.setup import Setup
from multipool.ops import Network

Facts = dict[str, Any]


class Adapter(Guarded):
    """A classifier that keeps learning from the unlabelled images it is asked about.

    A method says how to :meth:`_predict` and how to :meth:`_adapt`; it registers what it changes
    with :meth:`_keep`, and the base saves, restores, resets and guards exactly that. The given
    model is copied and never changed. Not a label in sight.
    """

    name: ClassVar[str]
    Config: ClassVar[type]
    takes_memory: ClassVar[str | None] = None  # name of the method's own pool, if it has one
    needs_source: ClassVar[bool] = False
    # Batches between two looks for a collapse; 0: nothing it learns comes from its predictions.
    watch_every: ClassVar[int] = 16

    def __init__(self, model: nn.Module, config: Any, setup: Setup) -> None:  # noqa: ANN401
        super().__init__()
        self.config, self.setup = config, setup
        self.network = Network(model, setup.precision, setup.compile, setup.num_classes)
        self.device = self.network.device()
        self.seconds = {"predict": 0.0, "memory": 0.0, "adapt": 0.0}
        self._numbers = {"seen": 0, "updates": 0, "batches": 0}
        self._tensors: dict[str, Tensor] = {}
        self._draws = numpy_generator(setup.seed, "draws", self.name)
        self._noise = torch_generator(setup.seed, self.device)
        self._lock = threading.RLock()
        self._listeners: list[Callable[[Facts], None]] = []
        self._news: list[Facts] = []
        self._build()
        self._question = Question(self.device)
        self._guard = Guard(self._tensors, self.device, setup.graphs) if setup.guard else None
        watched = setup.guard and self._tensors and self.watch_every
        self._recovery = (
            Recovery(self._tensors, setup.num_classes, self.watch_every) if watched else None
        )
        self._initial = self.state_dict()
        # How many batches until it starts anew; the user's wish goes before the method's own.
        self._period = setup.reset_every or getattr(config, "reset_every", None)
        self.recipe: dict[str, Any] = {"memory": None, "memory_options": {}}

    # What a method brings ---------------------------------------------------------------------

    @classmethod
    def uses_source(cls, config: object) -> bool:
        """Return whether ``source`` is read under this config; a needed one always is."""
        return cls.needs_source

    def _build(self) -> None:
        """Make the method's networks and optimiser; :meth:`_keep` all that an update changes."""

    @abstractmethod
    def _predict(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` for float images on the device, changing nothing."""

    def _adapt(self, images: Tensor, logits: Tensor) -> None:
        """Learn from the batch just predicted; call :meth:`_learn` for each update."""

    def _step(self, images: Tensor) -> Tensor:
        """Predict, then learn; a method that does both in one pass replaces this."""
        with self._timed("predict"), torch.no_grad():
            logits = self._predict(images)
        if self._guard is None:
            with torch.enable_grad():
                self._adapt(images, logits)
        elif not self._adapt_soundly(images, logits):
            self._guard.skip()  # nothing is learned from what is no prediction
        return logits

    def _adapt_soundly(self, images: Tensor, logits: Tensor) -> bool:
        """Learn from finite logits; tell whether they are."""
        with torch.enable_grad():
            if self._question.fine(logits):
                self._adapt(images, logits)
                return True
        return False

    # What users call ----------------------------------------------------------------------------

    @property
    def memory(self) -> Memory | None:
        """Return the bank, if the method has one."""
        return self.setup.memory

    @property
    def counts(self) -> dict[str, int]:
        """Return how many updates were made and undone, and how often it was restored.

        With ``bad_input="mask"`` also how many images were masked.
        """
        found = {"updates": self._numbers["updates"], "skipped": 0, "restored": 0}
        if self._guard is not None:
            found["skipped"] = self._guard.skipped()
        if self._recovery is not None:
            found["restored"] = self._recovery.restored
        if self.setup.bad_input == "mask":
            found["masked"] = self._masked
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of ``images``, then learn from them.

        Args:
            images: float ``(B, C, H, W)`` in [0, 1], or uint8.
        """
        # A caller's inference mode must not reach the update, which needs gradients.
        with torch.inference_mode(mode=False), self._lock:
            batch = admit(images, self.device, self.setup.bad_input)
            logits = self._answer(batch, self._advance)
            if batch.bad is not None:
                self._masked += int(batch.bad.sum())
                self._tell(None, "masked")
            self._deliver()
            return logits

    def step(self, images: Tensor) -> Tensor:
        """Do what calling the adapter does: predict, then learn."""
        return self(images)

    def predict(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` that a call would return now, and learn nothing."""
        with torch.inference_mode(mode=False), self._lock, torch.no_grad():
            batch = admit(images, self.device, self.setup.bad_input)
            return self._answer(batch, self._glance)

    def observe(self, callback: Callable[[Facts], None]) -> Callable[[], None]:
        """Call ``callback`` with the facts of every update; return a function that ends it.

        What the guard does is told too, with an ``event``: ``skipped``, ``restored``, ``masked``.
        """
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def reset(self) -> None:
        """Go back to the source model and an empty memory, as when the adapter was made."""
        with self._lock:
            self.load_state_dict(self._initial)
            self.seconds = dict.fromkeys(self.seconds, 0.0)

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file, atomically; see :func:`multipool.load`."""
        recipe = {
            "method": self.name,
            "options": asdict(self.config),
            "num_classes": self.setup.num_classes,
            "seed": self.setup.seed,
            "guard": self.setup.guard,
            "precision": self.setup.precision,
            "compile": self.setup.compile,
            "reset_every": self.setup.reset_every,
            "fallback": self.setup.fallback,
            "bad_input": self.setup.bad_input,
            "model": self.fingerprint(),
            **self.recipe,
        }
        with self._lock:
            write_state(path, self.state_dict(), recipe)

    def fingerprint(self) -> str:
        """Return a checksum of the source model, by which a saved state knows its model."""
        return digest(self.network.fingerprint())

    def state_dict(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Return everything that moves as one flat dict of tensors: copies, on the CPU."""
        state = {name: t.detach().cpu().clone() for name, t in self._tensors.items()}
        state |= {f"number.{k}": torch.tensor(v) for k, v in self._numbers.items()}
        state["generator.draws"] = numpy_state(self._draws)
        state["generator.noise"] = self._noise.get_state().clone()
        if self.memory is not None:
            state |= {f"memory.{k}": v for k, v in self.memory.state_dict().items()}
        if self._recovery is not None:
            state |= self._recovery.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # type: ignore[override]
        """Put back what :meth:`state_dict` returned; on an error nothing has changed."""
        if not isinstance(state, Mapping):
            raise ValueError(f"a state is a dict of tensors, got {type(state).__name__}")
        prefix = "memory."
        bank = {k: v for k, v in state.items() if str(k).startswith(prefix)}
        own = {k: v for k, v in state.items() if k not in bank or self.memory is None}
        check_state(own, self._expected(), self.name)
        draws, noise = self._generators_of(own)
        if self.memory is not None:
            self.memory.load_state_dict({k.removeprefix(prefix): v for k, v in bank.items()})
        restore_numpy(self._draws, draws)
        self._noise.set_state(noise)
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                tensor.copy_(own[name])
        self._numbers = {k: int(own[f"number.{k}"]) for k in self._numbers}
        if self._guard is not None:
            self._guard.accept()
        if self._recovery is not None:
            self._recovery.load_state_dict(own)

    def train(self, mode: bool = True) -> Self:
        """Change nothing: each pass says for itself how it normalises."""
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        raise ValueError(
            "an adapter stays where its model was: move or cast the model before multipool.adapt"
        )

    # What methods use ---------------------------------------------------------------------------

    def _keep(self, name: str, tensor: Tensor) -> Tensor:
        """Register a tensor that updates change in place: it is saved, reset and guarded."""
        self._tensors[name] = tensor
        return tensor

    def _learn(self, update: Callable[[], Tensor], *, again: bool = False) -> None:
        """Run one update, which returns its loss; undo it if it fails or is not finite.

        ``again``: and try it once more.
        """
        with self._timed("adapt"):
            loss = self._guard.run(update, again=again) if self._guard else update()
        self._numbers["updates"] += 1
        self._tell(loss)

    def _tell(self, loss: Tensor | None, event: str | None = None) -> None:
        """Put down the facts of this moment for the listeners, if there are any."""
        if not self._listeners:
            return
        facts: Facts = {"seen": self._numbers["seen"], **self.counts}
        facts["loss"] = None if loss is None else float(loss)
        facts["memory"] = None if self.memory is None else len(self.memory)
        facts |= dict(getattr(self.memory, "events", {}))
        clusters = getattr(self.memory, "clusters", None)
        if clusters is not None:
            facts["sizes"] = [int(s) for s in clusters.sizes]
        if event is not None:
            facts["event"] = event
        self._news.append(facts)

    def _deliver(self) -> None:
        """Tell the listeners, after the step: what they do wrong is not the update's failure."""
        news, self._news = self._news, []
        for facts in news:
            for callback in list(self._listeners):
                callback(facts)

    def _count_batch(self) -> None:
        """Count a batch; the one that completes a period of ``reset_every`` ends in a reset.

        Everything learned goes, the memory too (methods.md 5.9); the random draws and the number
        of updates go on, so that no period repeats the one before.
        """
        self._numbers["batches"] += 1
        if self._period is None or self._numbers["batches"] < self._period:
            return
        going_on = ("generator.draws", "generator.noise", "number.updates")
        now = self.state_dict()
        self.load_state_dict({**self._initial, **{name: now[name] for name in going_on}})

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start

    def _expected(self) -> dict[str, Tensor | None]:
        """Return the names in a state with a tensor of their kind; None: of the generators."""
        names: dict[str, Tensor | None] = {**self._tensors}
        names |= {f"number.{k}": torch.tensor(v) for k, v in self._numbers.items()}
        names |= {"generator.draws": None, "generator.noise": None}
        if self._recovery is not None:
            names |= self._recovery.state_dict()
        return names

    def _generators_of(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the two generators' states, tried out on others first."""
        draws, noise = state["generator.draws"], state["generator.noise"]
        restore_numpy(numpy_generator(0), draws)
        try:
            torch_generator(0, self.device).set_state(noise)
        except (RuntimeError, TypeError):
            raise ValueError("the state's 'generator.noise' is not one of this device") from None
        return draws, noise
