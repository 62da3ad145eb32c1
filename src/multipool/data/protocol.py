"""What a dataset offers to whoever streams it, and how its options are written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipool.core import ImageSet, numpy_generator
from multipool.core.generators import check_seed

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class DataOptions:
    """Where a dataset is, and which part of it is meant; the same for every entry of ``DATASETS``.

    ``data_dir`` None means the environment's ``MULTIPOOL_DATA``; ``cache_dir`` None means
    ``MULTIPOOL_CACHE``, else the user's cache folder. ``domains`` None means the paper's.
    """

    data_dir: str | Path | None = None
    severity: int = 5
    domains: tuple[str, ...] | None = None
    size: int | None = None  # side in pixels; only `folder` can choose it
    image_list: str | Path | None = None  # imagenet-c: one class/name a line
    class_list: str | Path | None = None  # imagenet-c: one class folder a line, in label order
    seed: int = 0  # of generated corruptions
    cache_dir: str | Path | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.severity, int) or not 1 <= self.severity <= 5:
            raise ValueError(f"severity must be 1 to 5, got {self.severity!r}")
        if self.size is not None and not 1 <= self.size <= 4096:
            raise ValueError(f"size must be 1 to 4096 pixels, got {self.size!r}")
        check_seed(self.seed)
        if self.domains is not None and len(set(self.domains)) != len(self.domains):
            raise ValueError(f"domains must not repeat, got {', '.join(self.domains)}")
        if self.domains is not None and not self.domains:
            raise ValueError("domains must name at least one domain, got none")


@dataclass(frozen=True)
class SourceImages:
    """Clean labelled images of the source domain, read when asked for.

    Iterating gives ``(images, labels)`` batches, uint8 ``(B, C, H, W)`` and int64 ``(B,)``, each
    image once, in one seeded random order: files often come sorted by class, and statistics over
    such batches would be wrong. Every pass gives the same batches.
    """

    labels: Ints  # (N,)
    read: Callable[[Ints], Tensor]  # rows (B,) -> uint8 (B, C, H, W)
    split: str  # what they are: "test" images are what a stream shows, "train" ones never are
    batch_size: int = 64
    seed: int = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = numpy_generator(self.seed, "source").permutation(len(self.labels))
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            yield self.read(rows), torch.from_numpy(self.labels[rows])

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.labels) // self.batch_size)

    @property
    def note(self) -> str:
        """What a reader of a result should know about these images, one sentence.

        >>> SourceImages(np.zeros(2000), lambda rows: torch.empty(0), "train").note
        'the source data are 2,000 training images, none of which the stream shows'
        """
        if self.split == "train":
            return (
                f"the source data are {len(self.labels):,} training images, "
                "none of which the stream shows"
            )
        return (
            f"the source data are {len(self.labels):,} clean {self.split} images, of which the "
            "stream shows corrupted copies; training images are taken with --source train"
        )

    def whole(self) -> ImageSet:
        """Return all images at once, in the order of the files."""
        rows = np.arange(len(self.labels))
        return ImageSet(self.read(rows), torch.from_numpy(self.labels), "source")


class Dataset(Protocol):
    """Labelled images in several domains. Labels start at 0; rows count from 0 in each domain."""

    @property
    def name(self) -> str:
        """The key in ``DATASETS``."""

    @property
    def num_classes(self) -> int:
        """Labels are 0 to ``num_classes - 1``."""

    @property
    def size(self) -> int:
        """Images are ``(3, size, size)``."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains in the order a stream visits them."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names in label order, where they are known."""

    @property
    def severities(self) -> tuple[int, ...]:
        """Severities that ``images`` can give; empty where the word has no meaning."""

    @property
    def lazy(self) -> bool:
        """Whether images are decoded one by one, so that a stream should use workers."""

    def labels(self, domain: str) -> Ints:
        """Return the ``(n,)`` labels of a domain, the same at every severity."""

    def images(self, domain: str, rows: Ints, severity: int | None = None) -> Tensor:
        """Return rows of a domain, uint8 ``(B, C, H, W)``; None is the dataset's own severity."""

    def source(self, split: str = "train") -> SourceImages:
        """Return clean source images, or raise ``FileNotFoundError`` that says what is missing.

        No image of ``"train"`` is shown by a stream, clean or corrupted: methods may learn from
        its labels. ``split`` of what comes back says which images they are.
        """
