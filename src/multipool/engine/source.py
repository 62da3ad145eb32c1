"""Source data in the three forms that methods read: statistics, Fisher weights, replay."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from multipool.core import as_float, check_images
from multipool.engine.fisher import obtain_fisher, regroup, source_images
from multipool.engine.replay import Replay
from multipool.engine.statistics import SourceStatistics, obtain
from multipool.ops import Branch, Network


class SourceData:
    """Whatever the user gave as ``source``, for one method.

    What was made from it takes its place: the images are read once, and ``given`` is all that a
    copy of the adapter needs.
    """

    def __init__(
        self, given: object, network: Network, num_classes: int, seed: int, method: str
    ) -> None:
        self.given = given
        self._network, self._num_classes = network, num_classes
        self._seed, self._method = seed, method

    def statistics(self) -> SourceStatistics:
        """Return each class's mean and variance of the penultimate features."""
        self.given = found = obtain(self._network, self.given, self._num_classes, self._method)
        return found

    def images(self, *, most: int, size: int) -> Iterator[Tensor]:
        """Yield the first ``most`` images in batches of ``size``, laid out for a pass.

        They are kept, so that what is read once can be read again.
        """
        read = list(regroup(source_images(self.given, self._method), most, size))
        self.given = [(images, None) for images in read]
        device = self._network.device()
        for images in read:
            yield self._network.prepare(as_float(check_images(images).to(device)))

    def fisher(self, branch: Branch, *, images: int, size: int) -> Tensor:
        """Return the Fisher weights ``(P,)`` of a trainable branch, still at its source values."""
        found = obtain_fisher(
            self._network, branch, self.given, images=images, size=size, method=self._method
        )
        self.given = {"fisher": found}
        return found

    def replay(self, *, most: int, size: int) -> Replay:
        """Return shuffled batches of up to ``most`` labelled images."""
        if not isinstance(self.given, Replay):
            self.given = Replay(self.given, self._method, self._num_classes, most, size, self._seed)
        return self.given
