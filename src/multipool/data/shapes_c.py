"""``shapes-c``: the embedded images under the corruptions; needs no file."""

from __future__ import annotations

from functools import cache

from multipool.data.arrays import CleanSet
from multipool.data.assembled import SEVERITIES, AssembledDataset, corruptions
from multipool.data.copies import CorruptedCopies
from multipool.data.places import cache_folder
from multipool.data.protocol import DataOptions

COUNTS = {"train": 10000, "test": 2000}  # images drawn of each split
DRAW_SEED = 0  # the images are part of the dataset: every stream has the same


def shapes_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return the embedded dataset: 100 classes at 32 px, 2,000 images in each domain."""
    from multipool.data.shapes import class_names

    domains = corruptions(options.domains)
    folder = cache_folder(options.cache_dir) / "shapes-c"
    return AssembledDataset(
        name="shapes-c",
        num_classes=len(class_names()),
        size=32,
        domains=domains,
        labels_of=lambda domain: drawn("test").labels,
        read=CorruptedCopies(lambda: drawn("test"), folder, options.seed),
        source_of=lambda split: drawn(split).source(split),
        classes=class_names(),
        severities=SEVERITIES,
        severity=options.severity,
    )


@cache
def drawn(split: str) -> CleanSet:
    """Return the clean images of ``"train"`` or ``"test"``."""
    from multipool.data.shapes import class_names, draw

    images = draw("train" if split == "train" else "test", COUNTS[split], seed=DRAW_SEED)
    pixels = images.images.permute(0, 2, 3, 1).contiguous().numpy()
    return CleanSet(pixels, images.labels.numpy(), class_names())
