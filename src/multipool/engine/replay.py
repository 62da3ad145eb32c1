"""Labelled source images kept at hand, for methods that go on learning from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from multipool.core import ImageSet, as_float, check_images, is_pair, numpy_generator


class Replay:
    """Shuffled batches of labelled source images, for ever; batch ``i`` is always the same.

    The images are read once and kept on the host as they came (at most ``most``), so the only
    state is how many batches were taken. Each pass has an order of its own; a last batch shorter
    than ``size`` is left out, unless there are fewer images than that altogether.
    """

    def __init__(
        self, source: object, method: str, num_classes: int, most: int, size: int, seed: int
    ) -> None:
        self.images, self.labels = _collect(source, method, num_classes, most, seed)
        self.size = min(size, len(self.labels))
        self._seed = seed
        self._order: tuple[int, np.ndarray] = (-1, np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of batches of one pass."""
        return len(self.labels) // self.size

    def batch(self, index: int) -> tuple[Tensor, Tensor]:
        """Return images ``(B, C, H, W)`` and labels ``(B,)`` of the batch with this number."""
        epoch, place = divmod(index, len(self))
        return self._rows(self._epoch(epoch)[place * self.size : (place + 1) * self.size])

    def once(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield every image once, shuffled, in batches of about the size."""
        parts = -(-len(self.labels) // self.size)
        for rows in np.array_split(self._epoch(0), parts):
            yield self._rows(rows)

    def _rows(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        index = torch.from_numpy(rows)
        return as_float(self.images[index]), self.labels[index]

    def _epoch(self, epoch: int) -> np.ndarray:
        if self._order[0] != epoch:
            generator = numpy_generator(self._seed, "replay", epoch)
            self._order = (epoch, generator.permutation(len(self.labels)))
        return self._order[1]


def _collect(
    source: object, method: str, num_classes: int, most: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Return up to ``most`` images and their labels from whatever the user gave."""
    kept: list[tuple[Tensor, Tensor]] = []
    count = 0
    for images, labels in _pairs(source, method, most, seed):
        if ((labels < 0) | (labels >= num_classes)).any():
            raise ValueError(
                f"source labels must be 0 to {num_classes - 1}, got {int(labels.min())} to "
                f"{int(labels.max())}"
            )
        kept.append((check_images(images).cpu()[: most - count], labels.cpu()[: most - count]))
        count += len(kept[-1][1])
        if count >= most:
            break
    if count == 0:
        raise ValueError("source must hold at least one labelled image, got none")
    if any(images.dtype != torch.uint8 for images, _ in kept):
        kept = [(as_float(images).float(), labels) for images, labels in kept]
    return torch.cat([images for images, _ in kept]), torch.cat([labels for _, labels in kept])


def _pairs(source: object, method: str, most: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (images, labels) of a loader, an ``ImageSet`` or a pair of arrays."""
    if isinstance(source, ImageSet):
        source = (source.images, source.labels)
    if is_pair(source):
        # Rows at random: arrays often come sorted by class.
        count = len(source[0])
        rows = numpy_generator(seed, "rows").permutation(count)[:most]
        source = [(source[0][rows], source[1][rows])]
    if not isinstance(source, Iterable) or isinstance(source, (str, bytes, dict)):
        raise ValueError(
            f"method '{method}' goes on learning from labelled source images: pass source= an "
            "iterable of (images, labels) batches or a pair of arrays, also when loading, "
            f"got {type(source).__name__}"
        )
    for item in source:
        if not isinstance(item, (tuple, list)) or len(item) < 2 or item[1] is None:
            raise ValueError(
                f"method '{method}' needs the labels of source images: every batch of source must "
                "be a pair (images, labels)"
            )
        images, labels = torch.as_tensor(item[0]), torch.as_tensor(item[1]).long()
        if len(images) != len(labels):
            raise ValueError(
                f"source images and labels must go in pairs, got {len(images)} and {len(labels)}"
            )
        yield images, labels
