"""The one dataset class: facts about a dataset, and the functions that read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from multipool.core import lookup
from multipool.data.corruptions import COMMON, CORRUPTIONS
from multipool.data.protocol import Ints, SourceImages

SEVERITIES = (1, 2, 3, 4, 5)  # of a corruption
SPLITS = {"train": "what a source model learns from", "test": "what its error is measured on"}


@dataclass(frozen=True)
class AssembledDataset:
    """A :class:`~multipool.data.protocol.Dataset` put together from functions.

    ``labels_of(domain)`` gives ``(n,)`` labels; ``read(domain, severity, rows)`` gives images,
    uint8 ``(B, C, H, W)``; ``source_of(split)`` the clean images. All are called when needed, so
    making a dataset reads next to nothing.
    """

    name: str
    num_classes: int
    size: int
    domains: tuple[str, ...]
    labels_of: Callable[[str], Ints]
    read: Callable[[str, int, Ints], Tensor]
    source_of: Callable[[str], SourceImages]
    classes: tuple[str, ...] | None = None
    severities: tuple[int, ...] = ()
    severity: int = 0
    lazy: bool = False
    labelled: bool = True  # else all labels are 0, which means nothing
    outputs: tuple[int, ...] | None = None  # of the model, in label order; None: all of them
    resize: str | None = None  # what is done to a picture that has another size, in words
    path_of: Callable[[str, int], str] | None = None  # the file of a row, where it has one

    def labels(self, domain: str) -> Ints:
        """Return the ``(n,)`` labels of a domain, checked to lie in ``0..num_classes-1``."""
        lookup(dict.fromkeys(self.domains), domain, f"domain of {self.name}")
        known = self.num_classes if self.labelled else 1
        return check_labels(self.labels_of(domain), known, f"the labels of {self.name} {domain}")

    def images(self, domain: str, rows: Ints, severity: int | None = None) -> Tensor:
        """Return rows ``(B,)`` of a domain, uint8 ``(B, C, H, W)``."""
        lookup(dict.fromkeys(self.domains), domain, f"domain of {self.name}")
        level = self.severity if severity is None else severity
        if severity is not None and severity not in self.severities:
            known = ", ".join(map(str, self.severities)) or "none"
            raise ValueError(f"{self.name} has severities {known}, got {severity}")
        return self.read(domain, level, np.asarray(rows, dtype=np.int64))

    def source(self, split: str = "train") -> SourceImages:
        """Return the clean images of ``"train"`` or ``"test"``."""
        lookup(SPLITS, split, "split")
        return self.source_of(split)


def check_labels(labels: object, num_classes: int, what: str) -> Ints:
    """Return labels as int64 ``(n,)`` in ``0..num_classes-1``, or say what is wrong with them."""
    try:
        array = np.asarray(labels)
    except (ValueError, OverflowError):  # lists of different lengths, numbers without end
        raise ValueError(f"{what} must be a list of whole numbers, got a ragged one") from None
    if array.ndim != 1 or len(array) == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{what} must be a list of whole numbers, got {array.dtype} of shape {array.shape}"
        )
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise ValueError(f"{what} must lie in 0 to {num_classes - 1}, got {wrong}")
    return array.astype(np.int64)


def corruptions(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the corruptions asked for, the paper's 15 by default, or refuse an unknown one.

    >>> len(corruptions(None)), corruptions(("fog",))
    (15, ('fog',))
    """
    if names is None:
        return COMMON
    for name in names:
        lookup(CORRUPTIONS, name, "corruption")
    return names
