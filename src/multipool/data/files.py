"""Images in single files: listed by class folder or by list, decoded when asked for."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from multipool.core import brief
from multipool.data.protocol import Bytes, Ints

if TYPE_CHECKING:
    from PIL import Image

EXTENSIONS = (".jpeg", ".jpg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff")
# Only formats that Pillow decodes by itself: EPS, for one, would start another program.
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF")
MAX_PIXELS = 2**26  # 67 million: more is taken for a decompression bomb
MAX_SIDE = 2**16  # no photograph is longer
_LONGEST = 2000  # characters of a path in a list or archive; systems allow 4096 in all


@dataclass(frozen=True)
class Framing:
    """How a picture becomes ``size`` x ``size``: scale (bilinear), then crop the centre.

    ``scale`` is the length of the shorter side before the crop, or of both sides if ``square``.
    A picture that has the right size already stays as it is if ``keep``.
    """

    size: int
    scale: int
    square: bool = False
    keep: bool = True  # ImageNet-C's own pictures, say, were cut before they were saved

    def describe(self) -> str:
        """Return what is done to a picture in words.

        >>> Framing(224, 256).describe()
        'shorter side to 256, centre 224 x 224, bilinear'
        """
        sides = "both sides" if self.square else "shorter side"
        return f"{sides} to {self.scale}, centre {self.size} x {self.size}, bilinear"


class FileImages:
    """Picture files under one folder, with labels; rows are decoded when asked for."""

    def __init__(self, root: Path, names: Sequence[str], labels: Ints, framing: Framing) -> None:
        self.root = root
        self.names = names
        self.labels = labels
        self.framing = framing

    def read(self, rows: Ints) -> Tensor:
        """Decode rows ``(B,)``: uint8 ``(B, 3, size, size)``."""
        return torch.from_numpy(self.array(rows)).permute(0, 3, 1, 2).contiguous()

    def array(self, rows: Ints) -> Bytes:
        """Decode rows ``(B,)``: uint8 ``(B, size, size, 3)``."""
        size = self.framing.size
        images = np.empty((len(rows), size, size, 3), dtype=np.uint8)
        for place, row in enumerate(rows):
            images[place] = decode(self.root / self.names[row], self.framing)
        return images

    def all(self) -> Bytes:  # noqa: A003
        """Decode everything with a few threads: uint8 ``(N, size, size, 3)``."""
        chunks = np.array_split(np.arange(len(self.names)), max(1, len(self.names) // 64))
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return np.concatenate(list(pool.map(self.array, chunks)))


def decode(file: Path | bytes, framing: Framing, name: str = "") -> Bytes:
    """Decode one picture to uint8 ``(size, size, 3)``, or say which one cannot be decoded."""
    from PIL.Image import open as open_picture

    what = name or str(file)
    if isinstance(file, Path) and not file.is_file():
        raise FileNotFoundError(f"no image at {what}")
    place = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        with open_picture(place, formats=FORMATS) as p:
            if p.width * p.height > MAX_PIXELS or max(p.size) > MAX_SIDE:
                raise ValueError(f"it claims {p.width} x {p.height} pixels")
            return np.array(_frame(p.convert("RGB"), framing))
    except Exception as error:  # broken files make decoders raise nearly anything
        raise ValueError(f"{what} does not decode as an image: {brief(error)}") from None


def _frame(picture: Image.Image, framing: Framing) -> Image.Image:
    from PIL.Image import Resampling

    width, height = picture.size
    if framing.keep and (width, height) == (framing.size, framing.size):
        return picture
    ratio = framing.scale / min(width, height)
    target = (
        (framing.scale, framing.scale)
        if framing.square
        else (max(framing.scale, int(width * ratio)), max(framing.scale, int(height * ratio)))
    )
    if target[0] * target[1] > MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels are too long and narrow to be scaled")
    picture = picture.resize(target, Resampling.BILINEAR)
    left, top = ((side - framing.size) // 2 for side in target)
    return picture.crop((left, top, left + framing.size, top + framing.size))


def folders(root: Path) -> tuple[str, ...]:
    """Return the names of the folders in ``root``, sorted; hidden ones do not count."""
    with os.scandir(root) as entries:
        return tuple(sorted(e.name for e in entries if e.is_dir() and e.name[0] != "."))


def class_folders(
    root: Path, classes: Sequence[str], framing: Framing, inner: str = ""
) -> FileImages:
    """List ``root/<class>/<inner>/<image>``: folders sorted, names sorted in each."""
    names: list[str] = []
    labels: list[int] = []
    index = {name: label for label, name in enumerate(classes)}
    for folder in folders(root):
        if folder not in index:
            raise ValueError(
                f"{root} has a folder {folder!r} that is none of the {len(index)} classes"
            )
        place = f"{folder}/{inner}" if inner else folder
        with os.scandir(root / place) as entries:
            found = sorted(e.name for e in entries if e.name.lower().endswith(EXTENSIONS))
        names += [f"{place}/{name}" for name in found]
        labels += [index[folder]] * len(found)
    if not names:
        raise FileNotFoundError(
            f"{root} has no images in class folders; it must hold <class>/<image>"
        )
    return FileImages(root, names, np.asarray(labels, dtype=np.int64), framing)


def checked_name(name: str, where: str) -> str:
    """Return a relative path of a list or archive, unless it leaves its folder.

    >>> checked_name("a/../../b", "list.txt")
    Traceback (most recent call last):
    ...
    ValueError: list.txt names 'a/../../b', which leaves its folder; nothing of it is used
    """
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or (path.parts and ":" in path.parts[0]):
        raise ValueError(
            f"{where} names {brief(name)!r}, which leaves its folder; nothing of it is used"
        )
    longest = max((len(part.encode(errors="replace")) for part in path.parts), default=0)
    if longest > 255 or len(name) > _LONGEST or "\0" in name:
        raise ValueError(f"{where} names {brief(name)!r}, which no file can be called")
    return path.as_posix()


def listed(file: Path, root: Path) -> list[tuple[str, str]]:
    """Read a list file: ``relative/path[ label]`` a line; every path must exist under ``root``."""
    entries = []
    for number, path, label in list_lines(file):
        if not (root / path).is_file():
            raise FileNotFoundError(
                f"line {number} of {file} names {brief(path)}, which is not in {root}"
            )
        entries.append((path, label))
    return entries


def list_lines(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, path and label (or "") of a list, whether the picture is there or not."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise FileNotFoundError(f"no readable list of images at {file}") from None
    if not any(line.strip() for line in lines):
        raise ValueError(f"{file} names no images")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        path, _, label = line.strip().rpartition(" ")
        if not path or not re.fullmatch(r"-?[0-9]{1,400}", label):
            path, label = line.strip(), ""
        yield number, checked_name(path.strip(), f"line {number} of {file}"), label


def read_names(file: Path) -> tuple[str, ...]:
    """Read one name a line, each once."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise FileNotFoundError(f"no readable list of names at {file}") from None
    names = tuple(line.split()[0] for line in lines if line.strip())
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{file} must name each class once, got {len(names)} names")
    return names
