"""What a method brings: what it keeps, how it predicts and how it learns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from multipool.core import Retrieved
from multipool.engine.bank import WatchedBank
from multipool.engine.graphs import Graphed
from multipool.engine.prediction import Prediction
from multipool.engine.source import SourceData
from multipool.ops import Network, View

# What a method cannot work without: nothing, the weights of normalisation layers of any kind, or
# BatchNorm layers, whose statistics it adapts or replaces.
NEEDS = ("none", "affine", "batchnorm")
STATISTICS = ("source", "batch", "kept")  # the model's, each batch's own, running ones of its own
Update = Callable[[], Tensor]  # changes what is kept, in place, and returns its loss
Pass = TypeVar("Pass", bound=Callable[..., tuple[Tensor, ...]])


class Stateful(Protocol):
    """What holds tensors that move under names of its own: a branch, an optimiser."""

    @property
    def state(self) -> dict[str, Tensor]:
        """The tensors by name, the very ones that are changed in place."""


Kept = Mapping[str, Tensor | Stateful]


class Record(Protocol):
    """What is kept on the host: saved, loaded and reset, but not guarded."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that moves, flat."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""


@dataclass(frozen=True)
class Context:
    """What every method is given besides its own hyperparameters.

    Args:
        network: the model, copied, with its normalisation layers found.
        num_classes: L.
        bank: the memory, for methods that take one.
        source: source images or statistics, for methods that need some.
        draws: small random numbers, on the host.
        noise: random numbers on the device.
        numbers: what is counted: ``seen`` samples, ``updates``, ``batches``.
        graphs: whether passes are recorded and replayed on a GPU.
    """

    network: Network
    num_classes: int
    bank: WatchedBank | None
    source: SourceData
    draws: np.random.Generator
    noise: torch.Generator
    numbers: dict[str, int]
    graphs: bool


def tensor_pass(function: Pass) -> Pass:
    """Mark a function of tensors that a GPU may record once and replay.

    It must touch the same tensors in the same way at every call of one shape, make no decision on
    the host that depends on values, and draw no random numbers.

    Args:
        function: a method from tensors to tensors.
    """
    function.is_tensor_pass = True  # type: ignore[attr-defined]
    return function


class Method(ABC):
    """One paper: what it keeps, how it predicts and how it learns, as passes over tensors.

    Its tensors are changed in place and listed by :meth:`keeps`; the engine saves, resets, guards
    and restores exactly those, ``numbers`` and the banks. Random numbers come from ``draws`` (small
    ones, on the host) and ``noise`` (on the device). Not a label in sight.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, an instance of the class's ``Config``.
    """

    name: ClassVar[str]
    Config: ClassVar[type]
    takes_memory: ClassVar[str | None] = None  # name of the method's own pool, if it has one
    prefers: ClassVar[str | None] = None  # a bank it takes by default in place of its own pool
    decodes: ClassVar[str] = "none"  # how its answers are decoded unless somebody says otherwise
    needs_source: ClassVar[bool] = False
    needs_norm: ClassVar[str] = "none"  # of the model's normalisation layers: one of NEEDS
    normalises_by: ClassVar[str] = "source"  # whose statistics BatchNorm layers use: of STATISTICS
    reads_features: ClassVar[bool] = False  # the input of the model's last linear layer
    one_pass: ClassVar[bool] = False  # learns by :meth:`train` while it predicts
    self_training: bool = True  # learns from its own predictions, so it may collapse
    expensive: ClassVar[bool] = False  # a prediction takes many passes
    few_updates: ClassVar[bool] = False  # each counts: one that fails is tried once more
    fuses: ClassVar[bool] = False  # worth fused kernels: passes that are recorded, many times

    view: View  # what :meth:`augmented` draws, for methods that see random views

    def __init__(self, context: Context, config: Any) -> None:  # noqa: ANN401
        self.config = config
        self.network, self.device = context.network, context.network.device()
        # Passes run while the host goes on, and cost least if they come in few shapes.
        self.beside_host = self.device.type == "cuda"
        self.num_classes, self.source = context.num_classes, context.source
        self.draws, self.noise, self.numbers = context.draws, context.noise, context.numbers
        self._bank = context.bank
        self.passes: list[Graphed] = []
        fuses = self.network.dtype if self.fuses else None
        for name in dir(type(self)):
            if getattr(getattr(type(self), name), "is_tensor_pass", False):
                replayed = Graphed(getattr(self, name), enabled=context.graphs, fuses=fuses)
                self.passes.append(replayed)
                setattr(self, name, replayed)

    @classmethod
    def uses_source(cls, config: object) -> bool:
        """Return whether source data are read under this config; needed ones always are."""
        return cls.needs_source

    @property
    def bank(self) -> WatchedBank:
        """The bank of a method that takes one."""
        assert self._bank is not None  # the engine gives every such method a bank
        return self._bank

    def banks(self) -> dict[str, WatchedBank]:
        """Return the banks by the names they are saved under."""
        return {} if self._bank is None else {"memory": self._bank}

    def records(self) -> Mapping[str, Record]:
        """Return what is kept on the host, by the names it is saved under; none by default."""
        return {}

    def facts(self) -> dict[str, object]:
        """Return what observers are told besides the rest; nothing by default."""
        return {}

    def keeps(self) -> Kept:
        """Return all that learning changes: tensors, or what has a ``state`` of tensors."""
        return {}

    @abstractmethod
    def predict(self, images: Tensor) -> Prediction:
        """Say what the float images ``(B, C, H, W)`` show, changing nothing that is kept."""

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Yield the updates that a batch, just predicted, brings; none by default."""
        return iter(())

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step; return its loss and the logits ``(B, L)`` from before it."""
        raise TypeError(f"{type(self).__name__} is one_pass and must say how to train")

    def images_of(self, stored: Retrieved) -> Tensor:
        """Return stored images ``(M, C, H, W)``, laid out for a pass."""
        return self.network.prepare(stored.images.to(self.device))

    @torch.no_grad()
    def augmented(self, images: Tensor) -> Tensor:
        """Return a random view of the images, laid out for a pass."""
        return self.network.prepare(self.view(images, self.draws, self.noise))
