"""Arrays of images in files: read without pickle, mapped into memory where that is possible."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipool.core import brief
from multipool.data.archives import unpacked_limit
from multipool.data.assembled import check_labels
from multipool.data.protocol import Bytes, Ints, SourceImages


@dataclass(frozen=True)
class CleanSet:
    """Clean images of one split, uint8 ``(N, H, W, 3)``, with labels and class names."""

    images: Bytes
    labels: Ints
    classes: tuple[str, ...] | None = None

    @cached_property
    def digest(self) -> str:
        """A short fingerprint of the images' bytes, for the names of cached copies."""
        total = hashlib.blake2b(np.ascontiguousarray(self.images).ravel().data, digest_size=8)
        total.update(str(self.images.shape).encode())
        return total.hexdigest()

    def source(self, split: str) -> SourceImages:
        """Return the same images as a source set of that name."""
        return SourceImages(self.labels, lambda rows: gather(self.images, rows), split)


def gather(images: Bytes, rows: Ints) -> Tensor:
    """Return rows of ``(N, H, W, 3)`` images as uint8 ``(B, 3, H, W)``."""
    picked = torch.from_numpy(np.ascontiguousarray(images[rows]))
    return picked.permute(0, 3, 1, 2).contiguous()


def load_npy(path: Path) -> npt.NDArray[np.generic]:
    """Map a ``.npy`` file into memory, or say in one sentence why that cannot be done."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header makes numpy raise nearly anything
        raise ValueError(
            f"{path} is not a complete .npy file ({brief(error)}); fetch it again"
        ) from None


def load_npz(path: Path, num_classes: int | None, size: int) -> CleanSet:
    """Read ``images`` uint8 ``(N, size, size, 3)``, ``labels`` and ``classes`` of an ``.npz``.

    ``num_classes`` None takes as many as ``classes`` names.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        _check_growth(path)
        with np.load(path, allow_pickle=False) as file:
            stored = {key: file[key] for key in ("images", "labels", "classes") if key in file}
    except Exception as error:  # damaged archives make readers raise nearly anything
        raise ValueError(
            f"{path} is not a readable .npz file ({brief(error)}); fetch or make it again"
        ) from None
    for key in ("images", "labels"):
        if key not in stored:
            raise ValueError(f"{path} must hold 'images' and 'labels', but has no '{key}'")
    names = stored.get("classes")
    if num_classes is None:
        num_classes = 0 if names is None else len(names)
    if names is not None and len(names) != num_classes:
        raise ValueError(f"{path} must name {num_classes} classes, got {len(names)}")
    images = check_array(stored["images"], size, str(path))
    labels = check_labels(stored["labels"], num_classes, f"the labels of {path}")
    if len(images) != len(labels):
        raise ValueError(f"{path} has {len(images)} images but {len(labels)} labels")
    return CleanSet(images, labels, None if names is None else tuple(map(str, names)))


def check_array(array: npt.NDArray[np.generic], size: int, what: str) -> Bytes:
    """Return ``array`` if it is uint8 ``(N, size, size, 3)`` with N > 0, else refuse it."""
    if array.dtype != np.uint8 or array.shape[1:] != (size, size, 3) or len(array) == 0:
        raise ValueError(
            f"{what} must hold uint8 images (N, {size}, {size}, 3), "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array  # type: ignore[return-value]


def _check_growth(path: Path) -> None:
    """Refuse an archive that would unpack to far more than it holds."""
    with zipfile.ZipFile(path) as file:
        total = sum(entry.file_size for entry in file.infolist())
    limit = unpacked_limit(path)
    if total > limit:
        raise ValueError(f"it would unpack to more than {limit // 2**20} MB")
