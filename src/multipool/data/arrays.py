"""Arrays of images in files: read without pickle, mapped into memory where that is possible."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipool.data.assembled import check_labels
from multipool.data.protocol import Ints, SourceImages

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class CleanSet:
    """Clean images of one split, uint8 ``(N, H, W, 3)``, with labels and class names."""

    images: Bytes
    labels: Ints
    classes: tuple[str, ...] | None = None
    note: str = ""
    _digest: list[str] = field(default_factory=list, repr=False, compare=False)

    def digest(self) -> str:
        """Return a short fingerprint of the images' bytes, for the names of cached copies."""
        if not self._digest:
            pixels = np.ascontiguousarray(self.images).ravel().data
            total = hashlib.blake2b(pixels, digest_size=8)
            total.update(str(self.images.shape).encode())
            self._digest.append(total.hexdigest())
        return self._digest[0]

    def source(self) -> SourceImages:
        """Return the same images as a source set."""
        return SourceImages(self.labels, lambda rows: gather(self.images, rows), note=self.note)


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
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"{path} is not a complete .npy file ({_first_line(error)}); fetch it again"
        ) from None


def load_npz(path: Path, num_classes: int | None, size: int) -> CleanSet:
    """Read ``images`` uint8 ``(N, size, size, 3)``, ``labels`` and ``classes`` of an ``.npz``.

    ``num_classes`` None takes as many as ``classes`` names.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {key: file[key] for key in ("images", "labels", "classes") if key in file}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a readable .npz file ({_first_line(error)}); fetch or make it again"
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


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
