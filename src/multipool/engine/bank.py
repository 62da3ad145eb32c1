"""A bank as a method sees it: whoever made it, its time is taken and its intake noted."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from multipool.core import Retrieved
from multipool.engine.prediction import Prediction
from multipool.memory import Memory


class WatchedBank:
    """Passes everything on to a bank, and notes what the engine must know.

    ``offered`` says whether it was given anything since the engine last set it to False: a batch
    that a bank has had is not tried a second time.
    """

    def __init__(self, bank: Memory, seconds: dict[str, float]) -> None:
        self.bank, self.offered, self._seconds = bank, False, seconds
        # Pixels are checked where they enter; a bank that can be told so need not read them again.
        told = "checked" in inspect.signature(bank.add).parameters
        self._known = {"checked": True} if told else {}

    def twin(self) -> WatchedBank:
        """Return a bank like this one, of its own."""
        return WatchedBank(copy.deepcopy(self.bank), self._seconds)

    def __len__(self) -> int:
        return len(self.bank)

    @property
    def capacity(self) -> int:
        """N, the number that losses divide ages by."""
        return self.bank.capacity

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """(C, H, W) of the images that it takes; None: any, or not told."""
        found = getattr(self.bank, "image_shape", None)
        return tuple(found) if isinstance(found, (tuple, list)) else None

    @property
    def needs_features(self) -> bool:
        """Whether the bank describes images by the network's features."""
        return getattr(getattr(self.bank, "options", None), "descriptor", None) == "feature"

    def add(self, images: Tensor, prediction: Prediction) -> None:
        """Offer images and what was said about them; features only if the bank asks for them."""
        self.offered = True
        features = prediction.features if self.needs_features else None
        with self._timed():
            self.bank.add(
                images,
                uncertainty=prediction.doubt,
                labels=prediction.labels,
                features=features,
                **self._known,
            )

    def retrieve(self, n: int | None) -> Retrieved:
        """Return about ``n`` samples, all of them for ``None``."""
        with self._timed():
            return self.bank.retrieve(n)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds["memory"] += time.perf_counter() - start
