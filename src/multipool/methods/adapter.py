"""The adapter that every method is: it predicts, then learns, and can be saved at any time."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from multipool.core import (
    as_float,
    check_images,
    numpy_generator,
    numpy_state,
    restore_numpy,
    torch_generator,
)
from multipool.memory import Memory
from multipool.methods.guard import Guard
from multipool.methods.saving import digest, write_state
from multipool.methods.setup import Setup
from multipool.ops import Network

Facts = dict[str, Any]


class Adapter(nn.Module, ABC):
    """A classifier that keeps learning from the unlabelled images it is asked about.

    A method says how to :meth:`_predict` and how to :meth:`_adapt`; it registers what it changes
    with :meth:`_keep`, and the base saves, restores, resets and guards exactly that. The given
    model is copied and never changed. Not a label in sight.
    """

    name: ClassVar[str]
    Config: ClassVar[type]
    takes_memory: ClassVar[str | None] = None  # name of the method's own pool, if it has one
    needs_source: ClassVar[bool] = False

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
        self._build()
        self._guard = Guard(self._tensors, self.device) if setup.guard else None
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
        with torch.enable_grad():
            self._adapt(images, logits)
        return logits

    # What users call ----------------------------------------------------------------------------

    @property
    def memory(self) -> Memory | None:
        """Return the bank, if the method has one."""
        return self.setup.memory

    @property
    def counts(self) -> dict[str, int]:
        """Return how many updates were made, how many were undone, how often it was restored."""
        skipped = self._guard.skipped() if self._guard else 0
        return {"updates": self._numbers["updates"], "skipped": skipped, "restored": 0}

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` of ``images``, then learn from them.

        Args:
            images: float ``(B, C, H, W)`` in [0, 1], or uint8.
        """
        # A caller's inference mode must not reach the update, which needs gradients.
        with torch.inference_mode(mode=False), self._lock:
            logits = self._step(self._enter(images))
            self._count_batch()
            return logits

    def step(self, images: Tensor) -> Tensor:
        """Do what calling the adapter does: predict, then learn."""
        return self(images)

    def predict(self, images: Tensor) -> Tensor:
        """Return the logits ``(B, L)`` that a call would return now, and learn nothing."""
        with torch.inference_mode(mode=False), self._lock, torch.no_grad():
            return self._predict(self._enter(images))

    def observe(self, callback: Callable[[Facts], None]) -> Callable[[], None]:
        """Call ``callback`` with the facts of every update; return a function that ends it."""
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
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # type: ignore[override]
        """Put back what :meth:`state_dict` returned; on an error nothing has changed."""
        own = {k: v for k, v in state.items() if not k.startswith("memory.")}
        self._check_state(own)
        if self.memory is not None:
            prefix = len("memory.")
            bank = {k[prefix:]: v for k, v in state.items() if k.startswith("memory.")}
            self.memory.load_state_dict(bank)
        restore_numpy(self._draws, own["generator.draws"])
        self._noise.set_state(own["generator.noise"])
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                tensor.copy_(own[name])
        self._numbers = {k: int(own[f"number.{k}"]) for k in self._numbers}

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

    def _learn(self, update: Callable[[], Tensor]) -> None:
        """Run one update, which returns its loss; undo it if it fails or is not finite."""
        with self._timed("adapt"):
            loss = self._guard.run(update) if self._guard else update()
        self._numbers["updates"] += 1
        if self._listeners:
            self._tell(loss)

    def _tell(self, loss: Tensor | None) -> None:
        facts: Facts = {"seen": self._numbers["seen"], **self.counts}
        facts["loss"] = None if loss is None else float(loss)
        facts["memory"] = None if self.memory is None else len(self.memory)
        facts |= dict(getattr(self.memory, "events", {}))
        clusters = getattr(self.memory, "clusters", None)
        if clusters is not None:
            facts["sizes"] = [int(s) for s in clusters.sizes]
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

    def _enter(self, images: Tensor) -> Tensor:
        """Check a batch at the door and bring it to the device as float."""
        x = as_float(check_images(images).detach().to(self.device))
        return self.network.prepare(x.clone() if x.is_inference() else x)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        expected = self._expected()
        missing, extra = expected.keys() - state.keys(), state.keys() - expected.keys()
        if missing or extra:
            odd = sorted(missing or extra)[0]
            trouble = f"lacks '{odd}'" if missing else f"has '{odd}', which it does not know"
            raise ValueError(f"the state is not one of method '{self.name}': it {trouble}")
        for name, like in expected.items():
            if state[name].shape != like.shape and not name.startswith("generator."):
                raise ValueError(
                    f"the state's '{name}' must have shape {tuple(like.shape)} for this model, "
                    f"got {tuple(state[name].shape)}"
                )

    def _expected(self) -> dict[str, Tensor]:
        numbers = {f"number.{k}": torch.tensor(v) for k, v in self._numbers.items()}
        generators = {"generator.draws": torch.empty(0), "generator.noise": torch.empty(0)}
        return {**self._tensors, **numbers, **generators}
